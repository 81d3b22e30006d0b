//! [`Resource`]: `/mcp` of this server, as clients know it.

use std::io;

use axum::http::HeaderValue;

use super::{Issuer, IssuerOptions, IssuerUrl, Refusal};
use crate::access::public_url::PublicUrl;
use crate::access::tokens::TokenEntry;

/// `/mcp` at its public address, with the provider of its tokens.
#[derive(Debug)]
pub(crate) struct Resource {
    address: String,
    challenge: HeaderValue,
    issuer: Issuer,
}

impl Resource {
    pub(crate) const PATH: &str = "/mcp";
    /// The path of the document about it (RFC 9728, section 3.1).
    pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

    pub(crate) fn new(url: &PublicUrl, options: &IssuerOptions) -> io::Result<Self> {
        let address = format!("{url}{}", Self::PATH);
        let challenge = format!("Bearer resource_metadata=\"{url}{}\"", Self::METADATA);
        let challenge = HeaderValue::from_str(&challenge).map_err(io::Error::other)?;
        Ok(Self { issuer: Issuer::new(options, &address)?, address, challenge })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn issuer(&self) -> &IssuerUrl {
        &self.issuer.options.url
    }

    /// Tells a client without a valid token where it gets one.
    pub(crate) fn challenge(&self) -> HeaderValue {
        self.challenge.clone()
    }

    /// Follows the keys of the provider.
    pub(crate) async fn follow(&self) {
        self.issuer.keys().follow().await;
    }

    /// The sender of a token of the provider. The log has the reason of a refusal.
    pub(crate) async fn accept(&self, token: &str) -> Result<TokenEntry, Refusal> {
        let accepted = self.issuer.accept(token).await;
        accepted.inspect_err(|refusal| tracing::warn!(%refusal, "a token of the identity provider was refused"))
    }
}
