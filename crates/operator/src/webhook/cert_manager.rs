//! Stores the webhook's certificates in a secret that all replicas read. The leader makes and renews
//! them, and writes the authority into the webhook configuration.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use homeostat_autoscaler::api::event_reason;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::certificates::{CertificateError, Certificates};
use crate::lease::Leadership;
use crate::supervisor::Heartbeat;
use crate::telemetry::Telemetry;

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// How often the secret is read.
const INTERVAL: Duration = Duration::from_secs(20);
/// The time limit of one round of requests.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Twice the interval and the time limit.
pub(crate) const CERT_MANAGER_DEADLINE: Duration = Duration::from_secs(100);
/// Conditions mention an expired certificate for this long.
const EXPIRY_SHOWN_FOR: Duration = Duration::from_secs(600);
/// API servers watch the webhook configuration and know a change after this time.
const CONFIGURED_AFTER: Duration = Duration::from_secs(3);

/// Where certificates are stored, and their names.
#[derive(Debug, Clone)]
pub struct CertManagerConfig {
    /// Namespace of the secret.
    pub namespace: String,
    /// Name of the secret.
    pub secret: String,
    /// Name of the webhook configuration that gets the authority.
    pub configuration: String,
    /// Names and addresses of the server.
    pub names: Vec<String>,
}

/// The certificate that the server presents. Until the stored one is known it presents a temporary
/// one, so that health and metrics are served at once.
#[derive(Debug)]
pub struct CurrentCertificate {
    key: RwLock<Option<Arc<CertifiedKey>>>,
    temporary: Arc<CertifiedKey>,
    /// Since when the webhook configuration has had the authority; none if it has not.
    configured: RwLock<Option<Instant>>,
    /// When a stored one expired, and when that was found out.
    expired: RwLock<Option<(Timestamp, Instant)>>,
}

impl CurrentCertificate {
    /// Presents a new certificate until the stored one is known.
    pub fn new(names: &[String]) -> Result<Self, CertificateError> {
        Self::showing(&Certificates::make(names, Timestamp::now(), None)?)
    }

    /// Presents this certificate until the stored one is known.
    pub fn showing(temporary: &Certificates) -> Result<Self, CertificateError> {
        let temporary = Arc::new(temporary.certified_key()?);
        let (key, configured, expired) = Default::default();
        Ok(Self { key, temporary, configured, expired })
    }

    /// When the certificate expired that was renewed recently, if it had expired.
    pub fn expired_recently(&self) -> Option<Timestamp> {
        let expired = *self.expired.read().expect(NOT_POISONED);
        expired.filter(|(_, found)| found.elapsed() < EXPIRY_SHOWN_FOR).map(|(at, _)| at)
    }

    /// Whether the API server has known the authority for long enough to call the webhook.
    pub fn is_trusted(&self) -> bool {
        let configured = *self.configured.read().expect(NOT_POISONED);
        configured.is_some_and(|at| at.elapsed() >= CONFIGURED_AFTER)
    }

    /// Whether the stored certificate is known.
    pub fn is_known(&self) -> bool {
        self.key.read().expect(NOT_POISONED).is_some()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let key = self.key.read().expect(NOT_POISONED).clone();
        Some(key.unwrap_or_else(|| self.temporary.clone()))
    }
}

/// Whether the webhook configuration has the authority.
enum Configured {
    /// There is no webhook configuration.
    Missing,
    /// It already had it.
    Before,
    /// It was written now.
    Now,
}

/// Makes, renews and stores certificates.
pub struct CertManager {
    config: CertManagerConfig,
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    current: Arc<CurrentCertificate>,
    recorder: Recorder,
    telemetry: Arc<Telemetry>,
    leads: Leadership,
}

impl CertManager {
    /// A manager for a server that presents `current`.
    pub fn new(
        client: Client,
        config: CertManagerConfig,
        current: Arc<CurrentCertificate>,
        telemetry: Arc<Telemetry>,
        leads: Leadership,
    ) -> Self {
        let reporter = Reporter { controller: "homeostat".to_owned(), instance: None };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            secrets: Api::namespaced(client.clone(), &config.namespace),
            configurations: Api::all(client),
            config,
            current,
            telemetry,
            leads,
        }
    }

    /// Renews them when they are due, as long as the process runs.
    pub async fn run(mut self, heartbeat: Heartbeat) {
        loop {
            match tokio::time::timeout(MAX_TIME, self.reconcile()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.telemetry.server_error("certificates", &error),
                Err(_) => {
                    let seconds = MAX_TIME.as_secs();
                    tracing::warn!(
                        seconds,
                        "the API server did not answer about the webhook's certificates"
                    );
                }
            }
            heartbeat.beat();
            // A new leader has work to do at once.
            let _ = tokio::time::timeout(INTERVAL, self.leads.changed()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn reconcile(&self) -> kube::Result<()> {
        let secret = self.secrets.get_opt(&self.config.secret).await?;
        let mut stored = secret.as_ref().and_then(read);
        let now = Timestamp::now();
        let is_usable = |stored: &Certificates| {
            !stored.are_due(now)
                && stored.are_for(&self.config.names)
                && stored.certified_key().is_ok()
        };
        if self.leads.is_held() && !stored.as_ref().is_some_and(is_usable) {
            match Certificates::make(&self.config.names, now, stored.as_ref()) {
                Ok(made) => {
                    let written = self.write(secret, &made).await?;
                    tracing::info!(ends = made.ends, "made certificates of the webhook");
                    self.publish_renewal(&written, stored.as_ref(), now).await;
                    stored = Some(made);
                }
                Err(error) => tracing::error!(%error, "failed to make certificates of the webhook"),
            }
        }
        let Some(stored) = stored else { return Ok(()) };
        // The API server trusts the new authority before the webhook presents its certificate.
        if self.leads.is_held() {
            let state = self.configure(&stored).await?;
            let mut configured = self.current.configured.write().expect(NOT_POISONED);
            *configured = match state {
                Configured::Missing => None,
                Configured::Before => Some(configured.unwrap_or_else(Instant::now)),
                Configured::Now => Some(Instant::now()),
            };
        } else {
            *self.current.configured.write().expect(NOT_POISONED) = None;
        }
        match stored.certified_key() {
            Ok(key) => {
                *self.current.key.write().expect(NOT_POISONED) = Some(Arc::new(key));
                self.telemetry.certificate_expires(stored.ends);
            }
            Err(error) => tracing::error!(%error, "the webhook's secret cannot be used"),
        }
        Ok(())
    }

    async fn write(&self, before: Option<Secret>, made: &Certificates) -> kube::Result<Secret> {
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let data: BTreeMap<String, ByteString> = [
            ("ca.crt", text(&made.authorities)),
            ("tls.crt", text(&made.certificate)),
            ("tls.key", text(&made.key)),
            ("ends", text(&made.ends.to_string())),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let params = PostParams::default();
        match before {
            // The server compares the resource version: of two replicas that write, one is refused.
            Some(before) => {
                let secret = Secret { data: Some(data), ..before };
                self.secrets.replace(&self.config.secret, &params, &secret).await
            }
            None => {
                let metadata =
                    ObjectMeta { name: Some(self.config.secret.clone()), ..ObjectMeta::default() };
                let secret = Secret { metadata, data: Some(data), ..Secret::default() };
                self.secrets.create(&params, &secret).await
            }
        }
    }

    /// Publishes an event about a renewal, which is a warning if the certificate had expired: pods
    /// that started meanwhile have the size of their template.
    async fn publish_renewal(
        &self,
        secret: &Secret,
        before: Option<&Certificates>,
        now: Timestamp,
    ) {
        let Some(before) = before else { return };
        let has_expired = before.ends <= now.as_second();
        let ends = Timestamp::from_second(before.ends).unwrap_or(now);
        if has_expired {
            *self.current.expired.write().expect(NOT_POISONED) = Some((ends, Instant::now()));
        }
        let why = if has_expired {
            format!("expired at {ends}")
        } else if before.are_due(now) {
            format!("would have expired at {ends}")
        } else {
            format!("was not valid for {}", self.config.names.join(", "))
        };
        let event = Event {
            type_: if has_expired { EventType::Warning } else { EventType::Normal },
            reason: event_reason::CERTIFICATE_RENEWED.to_owned(),
            note: Some(format!("the webhook's certificate {why} and was renewed")),
            action: "Replace".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &secret.object_ref(&())).await {
            self.telemetry.server_error("event", &error);
        }
    }

    /// Writes the authority into the webhook configuration.
    async fn configure(&self, stored: &Certificates) -> kube::Result<Configured> {
        let name = &self.config.configuration;
        let Some(configuration) = self.configurations.get_opt(name).await? else {
            tracing::warn!(
                name,
                "there is no webhook configuration of this name: new pods are not sized"
            );
            return Ok(Configured::Missing);
        };
        let bundle = ByteString(stored.authorities.as_bytes().to_vec());
        let webhooks = configuration.webhooks.unwrap_or_default();
        if webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle))
        {
            return Ok(Configured::Before);
        }
        let webhooks: Vec<_> = webhooks
            .iter()
            .map(|webhook| {
                serde_json::json!({ "name": webhook.name, "clientConfig": { "caBundle": bundle } })
            })
            .collect();
        let change = serde_json::json!({ "webhooks": webhooks });
        let params = PatchParams::default();
        self.configurations.patch(name, &params, &Patch::Strategic(change)).await?;
        Ok(Configured::Now)
    }
}

fn read(secret: &Secret) -> Option<Certificates> {
    let data = secret.data.as_ref()?;
    let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
    Some(Certificates {
        authorities: text("ca.crt")?,
        certificate: text("tls.crt")?,
        key: text("tls.key")?,
        ends: text("ends")?.parse().ok()?,
    })
}
