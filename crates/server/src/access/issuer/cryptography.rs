//! The signatures of tokens, by the library that does TLS.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// It only verifies. The library asks for the rest to sign tokens and to make keys.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Gives the library its cryptography, unless the program has chosen another.
pub(super) fn install() {
    if CryptoProvider::try_get_default().is_none() {
        let _ = PROVIDER.install_default(); // fails if another thread did so
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let kind = match algorithm {
        Algorithm::RS256 => Kind::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Kind::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Kind::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Kind::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Kind::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Kind::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Kind::Other(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Kind::Other(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Kind::Other(&ED25519),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    Ok(Box::new(RingVerifier { algorithm: *algorithm, kind, key: key.clone() }))
}

enum Kind {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

struct RingVerifier {
    algorithm: Algorithm,
    kind: Kind,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (&self.kind, self.key.kind()) {
            (Kind::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Kind::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            // The key is of another kind; keys of one kind differ in length.
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
