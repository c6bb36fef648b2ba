//! TLS for addresses behind a proxy. The caller gives the roots: none are bundled, none are looked up.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) async fn connect(host: &str, stream: TcpStream, roots: &[u8]) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config(roots)?)).connect(name, stream).await
}

fn config(roots: &[u8]) -> io::Result<ClientConfig> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(roots) {
        let certificate =
            certificate.map_err(|error| invalid(format!("the root certificates are not PEM: {error:?}")))?;
        store.add(certificate).map_err(|error| invalid(format!("a root certificate is not valid: {error}")))?;
    }
    if store.is_empty() {
        return Err(invalid("no root certificate was given".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(io::Error::other)?.with_root_certificates(store).with_no_client_auth())
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
