//! [`Detector`]: the kinds of sensitive data.

use std::fmt;

macro_rules! detectors {
    (
        $($(#[doc = $credential_doc:literal])+ $credential:ident = $credential_name:literal,)+
        personal data:
        $($(#[doc = $personal_doc:literal])+ $personal:ident = $personal_name:literal,)+
    ) => {
        /// A kind of sensitive data that [`SensitiveData`](crate::SensitiveData) detects.
        ///
        /// Published examples and obvious placeholders are ignored: `AKIAIOSFODNN7EXAMPLE`, `ghp_xxxx…`,
        /// `postgres://user:password@host`, the test card numbers of payment services.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum Detector {
            $($(#[doc = $credential_doc])+ $credential,)+
            $($(#[doc = $personal_doc])+ $personal,)+
        }

        impl Detector {
            /// All detectors.
            pub const ALL: &'static [Self] = &[$(Self::$credential,)+ $(Self::$personal,)+];

            /// The detectors of credentials, which are on by default.
            pub const CREDENTIALS: &'static [Self] = &[$(Self::$credential,)+];

            /// The detectors of personal data. Only [`PaymentCard`](Self::PaymentCard) is on by default.
            pub const PERSONAL: &'static [Self] = &[$(Self::$personal,)+];

            /// The name that the model reads in a refusal or mark.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$credential => $credential_name,)+
                    $(Self::$personal => $personal_name,)+
                }
            }
        }
    };
}

detectors! {
    /// An access key id of Amazon Web Services, permanent or temporary.
    AwsAccessKeyId = "AWS access key id",
    /// An AWS secret access key, if it has such a name or follows an access key id.
    AwsSecretAccessKey = "AWS secret access key",
    /// A Google API key, `AIza…`.
    GoogleApiKey = "Google API key",
    /// The key id of a Google Cloud service account, as in its JSON file. The key itself is a
    /// [`PrivateKey`](Self::PrivateKey).
    GoogleServiceAccountKey = "Google service account key",
    /// The key of an Azure storage account, if it has such a name.
    AzureStorageKey = "Azure storage key",
    /// The signature in an Azure shared access signature.
    AzureSasSignature = "Azure SAS signature",
    /// A GitHub token: personal, fine-grained, app or OAuth.
    GitHubToken = "GitHub token",
    /// A GitLab token: personal, deployment, runner or pipeline.
    GitLabToken = "GitLab token",
    /// A Slack token, or the URL of a webhook, which gives the same access.
    SlackToken = "Slack token",
    /// A secret or restricted Stripe key, or a webhook secret.
    StripeKey = "Stripe key",
    /// An OpenAI key.
    OpenAiKey = "OpenAI key",
    /// An Anthropic key or OAuth token.
    AnthropicKey = "Anthropic key",
    /// An npm access token, `npm_…`.
    NpmToken = "npm token",
    /// A token for the Python Package Index or its test index, `pypi-…`.
    PyPiToken = "PyPI token",
    /// A SendGrid key, `SG.…`.
    SendGridKey = "SendGrid key",
    /// A Twilio key, `SK…`, or an account token that follows the word Twilio or an account id.
    TwilioKey = "Twilio key",
    /// A Hugging Face token, `hf_…`.
    HuggingFaceToken = "Hugging Face token",
    /// A DigitalOcean token: personal, OAuth or refresh.
    DigitalOceanToken = "DigitalOcean token",
    /// A Discord bot token, or the URL of a webhook, which gives the same access.
    DiscordToken = "Discord token",
    /// A Telegram bot token.
    TelegramToken = "Telegram token",
    /// A signed JSON web token.
    JsonWebToken = "JSON web token",
    /// A private key in PEM, OpenSSH or PGP armour, even if the end is missing.
    PrivateKey = "private key",
    /// The password in `scheme://user:password@host`.
    UrlPassword = "password in a URL",
    /// The credentials in an `Authorization` header, `Bearer` or `Basic`.
    BearerToken = "bearer token",
    /// A password with such a name or in a command line: `DB_PASSWORD=…`, `"password": "…"`, `the password is …`, `pw
    /// …`, `curl -u user:…`, `mysql -p…`. It has 6 to 128 bytes, including a letter and a digit, because `bluebird` may
    /// be an ordinary word. After a sign such as `=`, it can also consist of digits, or of four or more words in lower
    /// case.
    Password = "password",
    /// Another key or token with such a name: `api_key=…`, `client_secret: …`, `the token is …`. It has at least 16
    /// characters, and letters and digits that alternate at least three times.
    ApiKey = "API key or token",
    personal data:
    /// A card number of a major payment network: 14 to 19 digits with a Luhn check digit, in one piece or in the groups
    /// printed on the card. One in ten other numbers with such a beginning and length has a valid check digit by
    /// chance.
    PaymentCard = "payment card number",
    /// An e-mail address.
    EmailAddress = "e-mail address",
    /// A telephone number: international, North American, in French groups, or after a word such as `tel`. Pairs of
    /// digits such as bytes can look like French groups.
    PhoneNumber = "phone number",
    /// An international bank account number of a registered country, with its check digits.
    Iban = "IBAN",
}

impl Detector {
    /// The detectors of a kind of sensitive data: a [name](Self::name) in lower case with hyphens, such as
    /// `e-mail-address`, or `personal` for all [personal data](Self::PERSONAL).
    ///
    /// # Errors
    /// [`UnknownKind`], which lists the kinds.
    pub fn of_kind(kind: &str) -> Result<&'static [Self], UnknownKind> {
        if kind == "personal" {
            return Ok(Self::PERSONAL);
        }
        let found = Self::ALL.iter().find(|detector| detector.kind() == kind);
        found.map(std::slice::from_ref).ok_or(UnknownKind)
    }

    fn kind(self) -> String {
        self.name().to_ascii_lowercase().replace(' ', "-")
    }
}

/// No detector has this kind of sensitive data.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected one of {}", kinds().join(", "))]
#[non_exhaustive]
pub struct UnknownKind;

fn kinds() -> Vec<String> {
    std::iter::once("personal".to_owned()).chain(Detector::ALL.iter().map(|detector| detector.kind())).collect()
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
