//! [`Detector`]: the kinds of sensitive data that are told apart.

use std::fmt;

macro_rules! detectors {
    ($($(#[doc = $doc:literal])+ $detector:ident = $name:literal,)+) => {
        /// A kind of sensitive data that [`SensitiveData`](crate::SensitiveData) finds.
        ///
        /// A value that is published as an example, or that is plainly a placeholder, is none: `AKIAIOSFODNN7EXAMPLE`,
        /// `ghp_xxxx…`, `postgres://user:password@host`, the card numbers for tests that payment services hand out.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum Detector {
            $($(#[doc = $doc])+ $detector,)+
        }

        impl Detector {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$detector,)+];

            /// The name that the model reads in a refusal or a mark.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$detector => $name,)+
                }
            }
        }
    };
}

detectors! {
    /// The id of an access key of Amazon Web Services, permanent or temporary.
    AwsAccessKeyId = "AWS access key id",
    /// The secret of such a key: where it is named so, or stands beside the id.
    AwsSecretAccessKey = "AWS secret access key",
    /// A key for APIs of Google, `AIza…`.
    GoogleApiKey = "Google API key",
    /// The id of the key of a service account in Google Cloud, as in its JSON file. The key itself is a
    /// [`PrivateKey`](Self::PrivateKey).
    GoogleServiceAccountKey = "Google service account key",
    /// The key of an Azure storage account, where it is named so.
    AzureStorageKey = "Azure storage key",
    /// The signature of a shared access signature of Azure.
    AzureSasSignature = "Azure SAS signature",
    /// A token of GitHub: personal, fine-grained, of an app, OAuth.
    GitHubToken = "GitHub token",
    /// A token of GitLab: personal, deployment, runner, pipeline.
    GitLabToken = "GitLab token",
    /// A token of Slack, or the address of a webhook, which is as good as one.
    SlackToken = "Slack token",
    /// A secret or restricted key of Stripe, or the secret of a webhook.
    StripeKey = "Stripe key",
    /// A key of OpenAI.
    OpenAiKey = "OpenAI key",
    /// A key or OAuth token of Anthropic.
    AnthropicKey = "Anthropic key",
    /// An access token of npm, `npm_…`.
    NpmToken = "npm token",
    /// A token of the Python Package Index or its test index, `pypi-…`.
    PyPiToken = "PyPI token",
    /// A key of SendGrid, `SG.…`.
    SendGridKey = "SendGrid key",
    /// A key of Twilio, `SK…`, or the token of an account, where it is named so or follows the id of the account.
    TwilioKey = "Twilio key",
    /// A token of Hugging Face, `hf_…`.
    HuggingFaceToken = "Hugging Face token",
    /// A token of DigitalOcean: personal, OAuth, refresh.
    DigitalOceanToken = "DigitalOcean token",
    /// The token of a bot of Discord, or the address of a webhook, which is as good as one.
    DiscordToken = "Discord token",
    /// The token of a bot of Telegram.
    TelegramToken = "Telegram token",
    /// A signed JSON web token.
    JsonWebToken = "JSON web token",
    /// A private key in PEM, OpenSSH or PGP armour, also without its end.
    PrivateKey = "private key",
    /// The password in `scheme://user:password@host`.
    UrlPassword = "password in a URL",
    /// The credentials in a header `Authorization`, `Bearer` or `Basic`.
    BearerToken = "bearer token",
    /// A password where it is named so or is an option of a program: `DB_PASSWORD=…`, `"password": "…"`, `the password is …`,
    /// `curl -u user:…`. It has six characters or more, among them a letter and a digit: without a digit it cannot be told from a word.
    Password = "password",
    /// The number of a payment card of a major network, 14 to 19 digits with the check digit of Luhn, at a stretch or in the groups
    /// that are printed on the card. One in ten other numbers with such a beginning and length has that digit by chance.
    PaymentCard = "payment card number",
    /// An e-mail address.
    EmailAddress = "e-mail address",
    /// A telephone number: international, of North America, in the French groups, or named as one. Bytes in pairs of digits look like
    /// the French groups.
    PhoneNumber = "phone number",
    /// A social security number of the United States, with hyphens. It has no check digit.
    UsSocialSecurityNumber = "US social security number",
    /// A German tax id (Steuer-ID), with its check digit.
    GermanTaxId = "German tax id",
    /// A Spanish DNI or NIE, with its check letter.
    SpanishNationalId = "Spanish national id",
    /// A French social security number (NIR), with its key.
    FrenchSocialSecurityNumber = "French social security number",
    /// An international bank account number of a country in the registry, with its check digits.
    Iban = "IBAN",
}

impl Detector {
    /// Those of credentials, which are on by default.
    pub const CREDENTIALS: &'static [Self] = &[
        Self::AwsAccessKeyId,
        Self::AwsSecretAccessKey,
        Self::GoogleApiKey,
        Self::GoogleServiceAccountKey,
        Self::AzureStorageKey,
        Self::AzureSasSignature,
        Self::GitHubToken,
        Self::GitLabToken,
        Self::SlackToken,
        Self::StripeKey,
        Self::OpenAiKey,
        Self::AnthropicKey,
        Self::NpmToken,
        Self::PyPiToken,
        Self::SendGridKey,
        Self::TwilioKey,
        Self::HuggingFaceToken,
        Self::DigitalOceanToken,
        Self::DiscordToken,
        Self::TelegramToken,
        Self::JsonWebToken,
        Self::PrivateKey,
        Self::UrlPassword,
        Self::BearerToken,
        Self::Password,
    ];

    /// Those of data about people and their accounts, of which [`PaymentCard`](Self::PaymentCard) alone is on by default.
    pub const PERSONAL: &'static [Self] = &[
        Self::PaymentCard,
        Self::EmailAddress,
        Self::PhoneNumber,
        Self::UsSocialSecurityNumber,
        Self::GermanTaxId,
        Self::SpanishNationalId,
        Self::FrenchSocialSecurityNumber,
        Self::Iban,
    ];
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
