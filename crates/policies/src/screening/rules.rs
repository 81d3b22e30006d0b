//! The rules of the detectors. A rule has a pattern for candidates and a function that checks them.

use std::ops::Range;

use crate::screening::check_digits;
use crate::screening::detector::Detector;
use crate::screening::passwords;

/// One way to find the values of a detector. A detector can have several rules.
pub(super) struct Rule {
    pub(super) detector: Detector,
    /// A pattern that matches in every text with a match of `pattern`. Rules with the same one follow each other, so
    /// that it is searched once for all of them.
    pub(super) words: Option<&'static str>,
    /// The first group is a candidate. If `value` can reject it, its length is bounded or it contains no blank, which
    /// keeps the time proportional to the length of the text.
    pub(super) pattern: &'static str,
    /// The position of the value in a candidate, if there is one.
    pub(super) value: fn(&str) -> Option<Range<usize>>,
}

const fn rule(detector: Detector, pattern: &'static str, value: fn(&str) -> Option<Range<usize>>) -> Rule {
    Rule { detector, words: None, pattern, value }
}

const fn password(pattern: &'static str, value: fn(&str) -> Option<Range<usize>>) -> Rule {
    const WORDS: &str = concat!(
        "[Pp]ass|PASS|[Pp][Ww]|psk|SECRET|[Kk]ennwort|[Cc]ontraseña|[Ss]enha|[Ww]achtwoord|[Hh]asło",
        "|[Пп]ароль|密码|パスワード"
    );
    Rule { detector: Detector::Password, words: Some(WORDS), pattern, value }
}

/// The pattern of a token between word boundaries. Boundaries are ASCII, because a token may be surrounded by Chinese
/// text and Unicode boundaries are slow.
macro_rules! token {
    ($($pattern:literal)+) => {
        concat!(r"(?-u:\b)(", $($pattern,)+ r")(?:[^0-9A-Za-z]|$)")
    };
}

/// The pattern of a number that is not part of a longer number, a word or a decimal fraction.
macro_rules! number {
    ($($pattern:literal)+) => {
        concat!(
            r"(?:^|[^0-9A-Za-z_.-]|(?:^|[^0-9])[.-])(",
            $($pattern,)+
            r")(?:$|[^0-9A-Za-z_.-]|[.-](?:$|[^0-9]))"
        )
    };
}

/// The pattern of a private key in armour, with the given pattern for white space.
macro_rules! armoured_key {
    ($space:literal) => {
        concat!(
            r"(-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----",
            $space,
            r"(?:[A-Za-z0-9-]{1,40}: [^\r\n\\]{0,200}", // such as `DEK-Info: AES-128-CBC,…`
            $space,
            r"){0,8}[A-Za-z0-9+/=]{16,}(?:",
            $space,
            r"[A-Za-z0-9+/=]{16,})*(?:(?:",
            $space,
            r"[A-Za-z0-9+/=]{1,15}){0,2}", // the last line, and the checksum of PGP
            $space,
            r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?)"
        )
    };
}

/// The pattern of the word password. The few spellings have few beginnings, which are fast to find.
macro_rules! password_word {
    () => {
        concat!(
            "(?:[Pp]ass(?:[Ww]or[dt]|wd|[Pp]hrase)|PASS(?:WOR[DT]|WD|PHRASE)",
            "|[Kk]ennwort|[Mm]ot de passe|[Cc]ontraseña|[Ss]enha|[Ww]achtwoord|[Hh]asło",
            r"|[Пп]ароль|密码|パスワード|(?-u:\b)(?:[Pp]wd?|PWD?|psk)|_(?:pwd?|PWD?)|(?-u:\B)Pwd?)"
        )
    };
}

/// The pattern of `pass`, which names a password in `DB_PASS=` and is a verb in most sentences.
macro_rules! password_short {
    () => {
        r"(?:(?-u:\b)[Pp]ass|_pass|_PASS|(?-u:\B)Pass)"
    };
}

/// The pattern between the name of a password and the password: `=`, `": `, `:** `.
macro_rules! password_sign {
    () => {
        r#"[\\"'`*_]{0,4}(?:>|[ \t]{0,3}(?:[=-]>|→|:=|[:=：|])|[ \t][–—-][ \t])[ \t*_]{0,6}"#
    };
}

/// The pattern before a password: `DB_PASSWORD=`, `"password": "`, `the password of the box is `.
macro_rules! before_password {
    () => {
        concat!(
            "(?:",
            password_word!(),
            r#"["'`*_]{0,4}(?: (?:for|of|on|at|für|von|vom|du|de|del|do|da|para|van|voor|от)"#,
            r#"(?: [0-9A-Za-zÀ-žА-я.@/_'’-]+){1,5}?| \([ 0-9A-Za-zÀ-ž._-]+\))?(?:"#,
            password_sign!(),
            "| (?:is|was|to|ist|war|lautet|auf|est|es)(?: now| still| (?:re)?set to| changed to| jetzt)?:? {1,3})|",
            password_short!(),
            password_sign!(),
            ")"
        )
    };
}

/// The pattern between the name of a key and the key: `=`, `": `, ` for the weather service is `.
macro_rules! key_sign {
    () => {
        concat!(
            r#"["'`*_]{0,4}(?:"#,
            password_sign!(),
            r"|(?: (?:for|of|on|für|von)(?: [0-9A-Za-zÀ-ž.@/_'’-]+){1,5}?)?",
            "(?::| (?:is|was|ist|war|lautet)(?: now)?:?) {1,3})"
        )
    };
}

/// The pattern of an unquoted password and the end of it.
macro_rules! unquoted_password {
    () => {
        r#"([^ \t\r\n"'`<>(){}\[\]|\\,;]{6,}?)(?:[.:)}\]*_]{0,3}(?:[ \t\r\n"'`<|\\]|$)|[,;])"#
    };
}

/// All rules. If two rules find overlapping values, the first rule wins.
pub(super) const RULES: &[Rule] = &[
    rule(Detector::AwsAccessKeyId, token!("(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"), secret),
    rule(
        Detector::AwsSecretAccessKey,
        concat!(
            r"(?i:secret[_. -]?(?:access[_. -]?)?key|aws[_. -]?secret)(?: is)?",
            r"[^0-9A-Za-z/+\n]{1,8}([0-9A-Za-z/+]{40})(?:[^0-9A-Za-z/+=]|$)"
        ),
        mixed_secret,
    ),
    rule(
        Detector::AwsSecretAccessKey,
        concat!(
            r"(?-u:\b)(?:AKIA|ASIA)[A-Z2-7]{16}[^0-9A-Za-z/+]{1,8}",
            r"(?:(?i:secret)[^0-9A-Za-z/+]{1,4})?([0-9A-Za-z/+]{40})(?:[^0-9A-Za-z/+=]|$)"
        ),
        mixed_secret,
    ),
    rule(Detector::GoogleApiKey, token!("AIza[0-9A-Za-z_-]{35}"), secret),
    rule(
        Detector::GoogleServiceAccountKey,
        r#"private_key_id["']?[ \t]*[:=][ \t]*["']?([0-9a-f]{40})(?:[^0-9a-f]|$)"#,
        secret,
    ),
    rule(
        Detector::AzureStorageKey,
        r"(?i:(?:account|storage)[_ -]?key)(?: is)?[^0-9A-Za-z/+\n]{1,8}([0-9A-Za-z+/]{86}==)",
        secret,
    ),
    rule(Detector::AzureSasSignature, r"[?&;]sig=([0-9A-Za-z%+/]{40,100}(?:%3[Dd]|=))", secret),
    rule(
        Detector::GitHubToken,
        token!("gh[oprsu]_[0-9A-Za-z]{36,250}|github_pat_[0-9A-Za-z]{22}_[0-9A-Za-z]{59}"),
        secret,
    ),
    rule(
        Detector::GitLabToken,
        token!(r"gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-[0-9A-Za-z_-]{20,250}(?:\.[0-9A-Za-z]{1,20}){0,3}"),
        secret,
    ),
    rule(
        Detector::SlackToken,
        token!("xox[abeoprs]-[0-9A-Za-z-]{20,250}|xapp-[0-9]-[0-9A-Z]{8,20}-[0-9]{8,20}-[0-9a-f]{32,128}"),
        secret,
    ),
    rule(
        Detector::SlackToken,
        r"(https://hooks\.slack\.com/(?:services|workflows)/T[0-9A-Z]{8,14}/[AB][0-9A-Z]{8,14}/[0-9A-Za-z/]{20,80})",
        secret,
    ),
    rule(
        Detector::StripeKey,
        token!("(?:sk|rk)_(?:live|test)_[0-9A-Za-z]{16,250}|whsec_[0-9A-Za-z+/]{32,100}"),
        secret,
    ),
    rule(
        Detector::OpenAiKey,
        token!("sk-(?:(?:proj|svcacct|admin)-[0-9A-Za-z_-]{40,250}|[0-9A-Za-z]{20}T3BlbkFJ[0-9A-Za-z]{20})"),
        secret,
    ),
    rule(Detector::AnthropicKey, token!("sk-ant-[a-z]{2,10}[0-9]{2}-[0-9A-Za-z_-]{32,250}"), secret),
    // https://github.blog/changelog/2021-09-23-npm-has-a-new-access-token-format/
    rule(Detector::NpmToken, token!("npm_[0-9A-Za-z]{36}"), secret),
    // A macaroon whose location is `pypi.org` or `test.pypi.org`: https://pypi.org/help/#apitoken
    rule(Detector::PyPiToken, token!("pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[0-9A-Za-z_-]{50,500}"), secret),
    // https://www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys
    rule(Detector::SendGridKey, token!(r"SG\.[0-9A-Za-z_-]{22}\.[0-9A-Za-z_-]{43}"), secret),
    // https://www.twilio.com/docs/glossary/what-is-a-sid and /docs/iam/api-keys. An account id, `AC…`, is not secret,
    // but its token may follow.
    rule(Detector::TwilioKey, token!("SK[0-9a-f]{32}"), secret),
    rule(
        Detector::TwilioKey,
        r"(?:AC[0-9a-f]{32}|[Tt]wilio|TWILIO)[^0-9\r\n]{0,40}[^0-9A-Za-z]([0-9a-f]{32})(?:[^0-9A-Za-z]|$)",
        secret,
    ),
    // https://huggingface.co/docs/hub/security-tokens
    rule(Detector::HuggingFaceToken, token!("hf_[0-9A-Za-z]{34}"), secret),
    // https://docs.digitalocean.com/reference/api/create-personal-access-token/
    rule(Detector::DigitalOceanToken, token!("do[opr]_v1_[0-9a-f]{64}"), secret),
    // A user id in base64, a time and a signature: https://discord.com/developers/docs/reference#authentication
    rule(Detector::DiscordToken, token!(r"[MNO][0-9A-Za-z_-]{23,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27,40}"), secret),
    // https://discord.com/developers/docs/resources/webhook
    rule(
        Detector::DiscordToken,
        r"(https://(?:[a-z]{1,10}\.)?discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{17,20}/[0-9A-Za-z_-]{60,80})",
        secret,
    ),
    // A bot id and 35 characters: https://core.telegram.org/bots/api#authorizing-your-bot
    rule(Detector::TelegramToken, r"(?:^|[^0-9])([0-9]{8,10}:AA[0-9A-Za-z_-]{33})(?:[^0-9A-Za-z_-]|$)", secret),
    rule(Detector::JsonWebToken, r"(?-u:\b)(eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{16,})", whole),
    // In a JSON string, line breaks are escaped.
    rule(Detector::PrivateKey, armoured_key!(r"(?:[ \t\r\n]|\\[nrt])*"), whole),
    rule(
        Detector::UrlPassword,
        concat!(
            r"(?-u:\b)[A-Za-z][0-9A-Za-z+.-]{1,30}://",
            r#"([^ \t\r\n/:@?#"'<>`]{0,64}:[^ \t\r\n/@"'<>`]{3,128})@[0-9A-Za-z_\[]"#
        ),
        passwords::in_url,
    ),
    rule(Detector::BearerToken, r"(?-u:\b)(?i:bearer)[ \t]+([0-9A-Za-z._~+/-]{20,}=*)", |token| {
        if token.bytes().any(|byte| byte.is_ascii_digit()) { secret(token) } else { None }
    }),
    rule(
        Detector::BearerToken,
        r#"(?i:authorization)["']?[ \t]*[:=][ \t]*["']?(?i:basic)[ \t]+([0-9A-Za-z+/]{8,}=*)"#,
        secret,
    ),
    password(
        concat!("(?:", before_password!(), "|", password_word!(), r#" {1,4})\\?["'`]([^\t\r\n"'`\\]{6,})\\?["'`]"#),
        passwords::stated_in_quotes,
    ),
    password(concat!(before_password!(), unquoted_password!()), passwords::stated),
    password(concat!(password_word!(), " {1,3}", unquoted_password!()), passwords::adjacent),
    password(
        concat!(
            password_word!(),
            password_sign!(),
            r#"["'`]?([a-zà-ÿ]{3,}(?: [a-zà-ÿ]{3,}){3,})[.]?["'`]?[ \t]*(?:[\r\n]|$)"#
        ),
        passwords::passphrase,
    ),
    // Alone on the line below the word.
    password(
        concat!(
            password_word!(),
            r#"[*_]{0,2}:[*_]{0,2}[ \t]*\r?\n[ \t`*-]*([^ \t\r\n"'`<>(){}\[\]|\\,;:]{6,})[ \t`*]*(?:[\r\n]|$)"#
        ),
        passwords::unquoted,
    ),
    // Variables of an environment and options of servers: `JWT_SECRET=…`, `requirepass …`.
    password(
        concat!(
            "(?:(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET|SECRET_KEY)(?:_?[0-9]{1,2})?=|requirepass |passphrase=)",
            r#"["']?([^ \t\r\n"'`<>(){}\[\]|\\,;&]{6,})"#
        ),
        passwords::assigned,
    ),
    // Options of curl and similar programs: `-u user:password`.
    rule(
        Detector::Password,
        r#"(?-u:\B)(?:-u|--user)(?:[ =]["']?|["'])([^\s:"'`/$]+:[^\s"'`/\\]{6,})(?:["'`\\\s]|$)"#,
        passwords::after_user,
    ),
    // Options of mysql and sshpass, `--password` before a space, and `login … password …` in a `.netrc`.
    rule(
        Detector::Password,
        concat!(
            r"(?:(?-u:\b)(?:mysql|mariadb)[a-z-]{0,12}(?: [^\r\n|;&]{0,120}?)? -p",
            r"|(?-u:\b)sshpass -p ?|--pass(?:word|wd|phrase|) ",
            r#"|(?-u:\b)login [^ \t\r\n]{1,80}\s{1,4}password )["']?"#,
            unquoted_password!()
        ),
        passwords::unquoted,
    ),
    // A key that only its name announces.
    rule(
        Detector::ApiKey,
        concat!(
            "(?:",
            "(?i:api[_ .-]?(?:key|token)|(?:access|auth|session|refresh|admin|bot|deploy|bearer)[_ .-]?token",
            "|(?:access|auth|encryption|master|private|secret|signing)[_ .-]?key",
            "|(?:client|consumer|app|signing|webhook|shared|hmac|jwt|oauth|session)[_ .-]?secret)",
            r"|(?-u:\b)(?:[Tt]oken|TOKEN|[Ss]ecret|SECRET))",
            key_sign!(),
            r#"\\?["'`]?([^ \t\r\n"'`<>(){}\[\]|\\,;]{16,})"#
        ),
        key,
    ),
    rule(
        Detector::PaymentCard,
        number!(
            "[0-9]{14,19}"
            "|[0-9]{4} [0-9]{4} [0-9]{4} [0-9]{4}(?: [0-9]{1,3})?"
            "|[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}(?:-[0-9]{1,3})?"
            r"|[0-9]{4}\.[0-9]{4}\.[0-9]{4}\.[0-9]{4}"
            "|[0-9]{4}[ -][0-9]{6}[ -][0-9]{4,5}"
        ),
        payment_card,
    ),
    rule(
        Detector::EmailAddress,
        // Latin, Greek and Cyrillic letters. Chinese characters end an address.
        concat!(
            r"([0-9A-Za-z\u{C0}-\u{52F}._%+'-]{1,64}@(?:[0-9A-Za-z\u{C0}-\u{52F}-]{1,63}\.){1,8}",
            r"(?:xn--[0-9A-Za-z-]{2,40}|[A-Za-z\u{C0}-\u{52F}]{2,24}))"
        ),
        email_address,
    ),
    rule(Detector::PhoneNumber, number!(r"\+[1-9](?:[ ./()-]{0,2}[0-9]){7,14}"), whole),
    rule(
        Detector::PhoneNumber,
        number!(
            r"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}-[0-9]{4}"
            "|[2-9][0-9]{2}-[2-9][0-9]{2}-[0-9]{4}"
            r"|[2-9][0-9]{2}\.[2-9][0-9]{2}\.[0-9]{4}"
            "|0[1-9](?: [0-9]{2}){4}"
            r"|0[1-9](?:\.[0-9]{2}){4}"
        ),
        whole,
    ),
    rule(
        Detector::PhoneNumber,
        concat!(
            r"(?i:phone|tel|telephone|telefono|telefon|mobile|mobil|handy|cell|fax|tél|téléphone|teléfono|móvil)\.?",
            r"(?i: number| no\.?| nr\.?)?[ :.]{1,3}([0-9(](?:[ ()./-]{0,2}[0-9]){6,14})(?:[^0-9A-Za-z]|$)"
        ),
        whole,
    ),
    rule(Detector::Iban, number!("[A-Z]{2}[0-9]{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?"), iban),
];

fn whole(candidate: &str) -> Option<Range<usize>> {
    Some(0..candidate.len())
}

fn whole_if(condition: bool, candidate: &str) -> Option<Range<usize>> {
    if condition { whole(candidate) } else { None }
}

/// Removes separators from a number in groups.
fn compact(number: &str) -> String {
    number.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Accepts a token that is neither a sample nor made of words. A service generates tokens, so no part is a word.
fn secret(token: &str) -> Option<Range<usize>> {
    let random = token.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    whole_if(random && !is_sample(token), token)
}

fn is_sample(token: &str) -> bool {
    const PARTS: [&str; 6] = ["example", "xxxx", "your", "placeholder", "changeme", "****"];
    let lowercase = token.to_ascii_lowercase();
    PARTS.iter().any(|part| lowercase.contains(part))
}

/// Accepts a key that looks random, without a period at the end of a sentence.
fn key(candidate: &str) -> Option<Range<usize>> {
    let key = candidate.trim_end_matches(['.', ':', '*', '_']);
    passwords::key(key).filter(|_| !is_sample(key))
}

/// Accepts a token with digits and letters of both cases. A hexadecimal hash is rejected.
fn mixed_secret(token: &str) -> Option<Range<usize>> {
    let holds = |class: fn(&u8) -> bool| token.as_bytes().iter().any(class);
    let mixed = holds(u8::is_ascii_uppercase) && holds(u8::is_ascii_lowercase) && holds(u8::is_ascii_digit);
    if mixed { secret(token) } else { None }
}

/// Accepts a card number. A following group may be its security code.
fn payment_card(candidate: &str) -> Option<Range<usize>> {
    let without_last_group = candidate.rfind([' ', '-']).unwrap_or(candidate.len());
    [candidate.len(), without_last_group]
        .into_iter()
        .find(|&end| is_card_number(&compact(&candidate[..end])))
        .map(|end| 0..end)
}

fn is_card_number(digits: &str) -> bool {
    is_of_a_network(digits) && check_digits::luhn(digits) && !is_test_card(digits)
}

/// Whether the first digits and the length are valid for Visa, Mastercard, American Express, Diners Club, Discover,
/// JCB, UnionPay or Maestro.
fn is_of_a_network(digits: &str) -> bool {
    let Some(Ok(start)) = digits.get(..6).map(str::parse::<u32>) else { return false };
    match (start, digits.len()) {
        (400_000..=499_999, 16 | 19) => true,
        // Mastercard and Maestro. Longer Maestro numbers exist only in theory.
        (222_100..=272_099 | 500_000..=589_999 | 630_400..=630_499 | 675_900..=676_399, 16) => true,
        (340_000..=349_999 | 370_000..=379_999, 15) => true,
        (300_000..=305_999 | 309_500..=309_599 | 360_000..=369_999 | 380_000..=399_999, 14) => true,
        // JCB, Discover, UnionPay.
        (352_800..=358_999 | 601_100..=601_199 | 620_000..=629_999 | 644_000..=659_999, 16..=19) => true,
        _ => false,
    }
}

/// Whether payment services publish the number for testing.
fn is_test_card(digits: &str) -> bool {
    #[rustfmt::skip]
    const PUBLISHED: [&str; 18] = [
        "4242424242424242", "4111111111111111", "4012888888881881", "4000056655665556", "5555555555554444",
        "5200828282828210", "5105105105105100", "2223003122003222", "6011111111111117", "6011000990139424",
        "6011981111111113", "6200000000000005", "6205500000000000004", "3566002020360505",
        "3530111333300000", "378282246310005", "371449635398431", "30569309025904",
    ];
    // Stripe's test numbers for declined and disputed payments start with these digits.
    digits.starts_with("400000") || PUBLISHED.contains(&digits)
}

/// Accepts an address of a person. Domains reserved for examples, `git@` in SSH URLs and `noreply` addresses are
/// rejected.
fn email_address(address: &str) -> Option<Range<usize>> {
    const RESERVED: [&str; 3] = ["example", "invalid", "test"];
    let (local, domain) = address.rsplit_once('@')?;
    let domain = domain.to_ascii_lowercase();
    let mut labels = domain.rsplit('.');
    let (top, second) = (labels.next()?, labels.next()?);
    let is_reserved = RESERVED.contains(&top) || (second == "example" && matches!(top, "com" | "net" | "org"));
    let is_not_personal = matches!(local, "git" | "noreply" | "no-reply");
    whole_if(!is_reserved && !is_not_personal, address)
}

/// Accepts an IBAN with the length for its country. Any further characters of the candidate belong to another word.
fn iban(candidate: &str) -> Option<Range<usize>> {
    let length = IBAN_LENGTHS.iter().find(|(country, _)| candidate.starts_with(country)).map(|&(_, length)| length)?;
    let characters = candidate.char_indices().filter(|(_, character)| character.is_ascii_alphanumeric());
    let end = characters.map(|(index, _)| index + 1).nth(length - 1)?;
    if check_digits::iban(&compact(&candidate[..end])) { Some(0..end) } else { None }
}

/// The length of an IBAN per country, from the SWIFT registry.
#[rustfmt::skip]
const IBAN_LENGTHS: &[(&str, usize)] = &[
    ("AD", 24), ("AE", 23), ("AL", 28), ("AT", 20), ("AZ", 28), ("BA", 20), ("BE", 16), ("BG", 22), ("BH", 22),
    ("BR", 29), ("BY", 28), ("CH", 21), ("CR", 22), ("CY", 28), ("CZ", 24), ("DE", 22), ("DK", 18), ("DO", 28),
    ("EE", 20), ("EG", 29), ("ES", 24), ("FI", 18), ("FO", 18), ("FR", 27), ("GB", 22), ("GE", 22), ("GI", 23),
    ("GL", 18), ("GR", 27), ("GT", 28), ("HR", 21), ("HU", 28), ("IE", 22), ("IL", 23), ("IQ", 23), ("IS", 26),
    ("IT", 27), ("JO", 30), ("KW", 30), ("KZ", 20), ("LB", 28), ("LI", 21), ("LT", 20), ("LU", 20), ("LV", 21),
    ("MC", 27), ("MD", 24), ("ME", 22), ("MK", 19), ("MR", 27), ("MT", 31), ("MU", 30), ("NL", 18), ("NO", 15),
    ("PK", 24), ("PL", 28), ("PS", 29), ("PT", 25), ("QA", 29), ("RO", 24), ("RS", 22), ("SA", 24), ("SE", 24),
    ("SI", 19), ("SK", 24), ("SM", 27), ("TN", 24), ("TR", 26), ("UA", 29), ("VA", 22), ("XK", 20),
];

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn every_pattern_compiles_and_has_a_candidate() {
        for rule in RULES {
            assert_eq!(Regex::new(rule.pattern).unwrap().captures_len(), 2, "{}", rule.detector);
            assert!(rule.words.is_none_or(|words| Regex::new(words).is_ok()), "{}", rule.detector);
        }
    }

    #[test]
    fn every_detector_has_a_rule() {
        for detector in Detector::ALL {
            assert!(RULES.iter().any(|rule| rule.detector == *detector), "{detector}");
        }
        assert_eq!(Detector::ALL, [Detector::CREDENTIALS, Detector::PERSONAL].concat());
    }

    #[test]
    fn payment_card_excludes_the_security_code() {
        assert_eq!(payment_card("4929 7226 5379 7141 456"), Some(0..19));
        assert_eq!(payment_card("4929 7226 5379 7142 456"), None);
    }

    #[test]
    fn is_card_number_rejects_test_cards() {
        assert!(is_card_number("4929722653797141"));
        assert!(!is_card_number("4242424242424242"));
    }
}
