//! Calls by path, for call sites that do not name a route yet.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Client, ClientError};

impl Client {
    pub async fn call_path(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let response = self.send_raw(method, path, &[], body).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(ClientError::from_answer(status.as_u16(), &response.collect().await?.to_bytes())),
        }
    }

    pub async fn bytes_path(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Bytes, ClientError> {
        Ok(self.call_path(method, path, body).await?.collect().await?.to_bytes())
    }

    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.bytes_path(Method::GET, path, None).await?)?)
    }

    pub async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body)?;
        Ok(serde_json::from_slice(&self.bytes_path(Method::POST, path, Some(body)).await?)?)
    }

    pub async fn delete<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.bytes_path(Method::DELETE, path, None).await?)?)
    }
}
