//! [`Issuer`]: an identity provider whose access tokens reach memories.

mod cryptography;
mod keys;
mod resource;
mod rules;

use std::fmt;
use std::io;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use memory_tool::Actor;
use serde::Deserialize;
use serde_json::{Map, Value};

use keys::Keys;
pub(crate) use resource::Resource;
pub use rules::AccessRule;

use crate::access::tokens::TokenEntry;
use crate::options::ConfigurationError;

/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The signatures that are accepted. A key for HMAC would be a secret, and providers publish theirs.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// An identity provider, whose access tokens are accepted at `/mcp`.
///
/// They are JWTs (RFC 9068) with an end, this issuer and the audience of this server, and a signature by a key of the
/// provider. Its metadata (OpenID Connect Discovery or RFC 8414) leads to its keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IssuerOptions {
    /// The address of the provider, as in the claim `iss` of its tokens. It has `https`, or is of this machine.
    pub url: IssuerUrl,
    /// The claim `aud` of tokens for this server. Default: the public address of `/mcp`, as clients ask for it.
    pub audience: Option<String>,
    /// The claim with the name of the actor. Default: `sub`.
    #[serde(default = "subject")]
    pub actor: String,
    /// The rules of access. The first rule for a token counts.
    pub access: Vec<AccessRule>,
}

impl IssuerOptions {
    /// Asks the provider for its keys, and returns their number.
    ///
    /// # Errors
    /// If it does not respond, or its metadata is of another issuer.
    pub async fn check(&self) -> io::Result<usize> {
        let keys = Keys::new(self.url.as_str())?.read().await.map_err(io::Error::other)?;
        Ok(keys.len())
    }
}

fn subject() -> String {
    "sub".to_owned()
}

/// The address of an identity provider.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(try_from = "String")]
pub struct IssuerUrl(String);

impl IssuerUrl {
    /// The text of the address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for IssuerUrl {
    type Error = ConfigurationError;

    fn try_from(given: String) -> Result<Self, ConfigurationError> {
        if keys::is_trusted(&given) && !given.contains(['?', '#']) {
            return Ok(Self(given));
        }
        Err(ConfigurationError::new(format!("expected an address such as https://login.example, not {given:?}")))
    }
}

/// The reason why a token is not accepted, for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The provider does not respond.
    #[error("the keys of the identity provider are unknown")]
    NoKeys,
    #[error("the token is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    #[error("a signature by {0:?} is not accepted")]
    Algorithm(Algorithm),
    #[error("the identity provider has no key with the id {0:?}")]
    UnknownKey(Option<String>),
    #[error("{0}")]
    Jwt(#[from] jsonwebtoken::errors::Error),
    #[error("no rule of the configuration fits the token of {0:?}")]
    NoRule(String),
    #[error("the claim {0:?} is missing, or is no text for a name")]
    Claim(String),
}

/// Accepts the tokens of an identity provider.
pub(crate) struct Issuer {
    options: IssuerOptions,
    audience: String,
    keys: Keys,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Issuer {
    /// An issuer of tokens for this audience, unless the options have another.
    ///
    /// # Errors
    /// If the system has no certificates for TLS.
    pub(crate) fn new(options: &IssuerOptions, audience: &str) -> io::Result<Self> {
        cryptography::install();
        let audience = options.audience.clone().unwrap_or_else(|| audience.to_owned());
        Ok(Self { options: options.clone(), audience, keys: Keys::new(options.url.as_str())? })
    }

    fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The sender of a valid token, as an entry that ends with it.
    pub(crate) async fn accept(&self, token: &str) -> Result<TokenEntry, Refusal> {
        let (claims, end) = self.verify(token).await?;
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        let rule = self.options.access.iter().find(|rule| rule.fits(&claims));
        let rule = rule.ok_or_else(|| Refusal::NoRule(subject.to_owned()))?;
        let wrong = || Refusal::Claim(self.options.actor.clone());
        let actor = claims.get(&self.options.actor).and_then(Value::as_str).ok_or_else(wrong)?;
        let actor = Actor::from_trusted_name(actor).map_err(|_| wrong())?;
        let memory = rule.memory(&claims).map_err(Refusal::Claim)?;
        // Each client has a separate order of requests. The names are of RFC 9068 and of OpenID Connect.
        let client = ["client_id", "azp"].iter().find_map(|name| claims.get(*name)?.as_str());
        Ok(rule.entry([self.options.url.as_str(), subject, client.unwrap_or_default()], actor, memory, end))
    }

    /// The claims of a token, and its end.
    async fn verify(&self, token: &str) -> Result<(Map<String, Value>, u64), Refusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::TooLong);
        }
        let header = decode_header(token)?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(Refusal::Algorithm(header.alg));
        }
        let mut validation = Validation::new(header.alg);
        validation.set_required_spec_claims(&["aud", "exp", "iss", "sub"]);
        validation.set_audience(&[&self.audience]);
        validation.set_issuer(&[self.options.url.as_str()]);
        validation.validate_nbf = true;
        let mut refusal = Refusal::UnknownKey(header.kid.clone());
        for key in self.keys.find(header.kid.as_deref()).await.ok_or(Refusal::NoKeys)? {
            let decoded =
                DecodingKey::from_jwk(&key).and_then(|key| decode::<Map<String, Value>>(token, &key, &validation));
            match decoded {
                Ok(data) => {
                    let end = data.claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
                    return Ok((data.claims, end as u64));
                }
                // A token without the id of its key may have another one.
                Err(error) => refusal = error.into(),
            }
        }
        Err(refusal)
    }
}
