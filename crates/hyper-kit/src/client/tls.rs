//! Whom the client trusts: the roots that browsers trust, and an operator's own.
//!
//! The cryptography is named here rather than taken from the process, because rustls panics when two are linked and none
//! was chosen.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

/// Extra authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExtraCaError {
    /// The PEM text is malformed.
    #[error("the file of extra authorities is no PEM file; give one of BEGIN CERTIFICATE blocks")]
    NotPem(#[source] pem::Error),
    /// There is text, and no certificate in it.
    #[error("the file of extra authorities holds no certificate; give one in PEM form")]
    Empty,
    /// A block is no certificate of an authority.
    #[error("the file of extra authorities holds a damaged certificate; export it again")]
    Damaged(#[source] rustls::Error),
}

/// TLS 1.2 and 1.3, offering HTTP/2 and HTTP/1.1.
pub(super) fn client_config(extra_ca_pem: Option<&[u8]>) -> Result<ClientConfig, ExtraCaError> {
    let mut config = tls_config(extra_ca_pem)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// TLS 1.2 and 1.3 for other protocols than HTTP: the same authorities, and those of a PEM file beside them.
///
/// # Errors
/// If the extra authorities cannot be used.
pub fn tls_config(extra_ca_pem: Option<&[u8]>) -> Result<ClientConfig, ExtraCaError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(pem) = extra_ca_pem {
        add(&mut roots, pem)?;
    }

    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks both versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), ExtraCaError> {
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(ExtraCaError::NotPem)?;
        roots.add(certificate).map_err(ExtraCaError::Damaged)?;
    }
    if roots.len() == before {
        return Err(ExtraCaError::Empty);
    }
    Ok(())
}
