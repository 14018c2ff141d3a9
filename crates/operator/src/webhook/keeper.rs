//! Keeps the webhook's certificates in a secret that all copies read. The copy that leads makes
//! and replaces them, and tells the API server which authority to believe.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

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
use crate::telemetry::Telemetry;

/// How often the secret is looked at.
const INTERVAL: Duration = Duration::from_secs(20);
/// A server that does not answer in this time is asked again.
const MOST_TIME: Duration = Duration::from_secs(30);
/// For this long conditions tell that a certificate had ended.
const TOLD_FOR: Duration = Duration::from_secs(600);
/// API servers hear of a changed configuration through a watch: by then they have.
const LEARNT_AFTER: Duration = Duration::from_secs(3);

/// Where certificates are kept, and for whom they are.
#[derive(Debug, Clone)]
pub struct KeeperConfig {
    /// Namespace of the secret.
    pub namespace: String,
    /// Name of the secret.
    pub secret: String,
    /// Name of the webhook configuration that is told of the authority.
    pub configuration: String,
    /// Names and addresses of the server.
    pub names: Vec<String>,
}

/// The certificate that the server shows now. Before the kept one is known it shows one of its
/// own: health and metrics do not wait for it.
#[derive(Debug)]
pub struct CurrentCertificate {
    key: RwLock<Option<Arc<CertifiedKey>>>,
    own: Arc<CertifiedKey>,
    /// Since when the API server has been told whom to believe; none if it has not.
    told: RwLock<Option<Instant>>,
    /// When one that was kept had ended, and when that was found out.
    ended: RwLock<Option<(Timestamp, Instant)>>,
}

impl CurrentCertificate {
    /// One that nobody else knows yet.
    pub fn new(names: &[String]) -> Result<Self, CertificateError> {
        Self::showing(&Certificates::make(names, Timestamp::now(), None)?)
    }

    /// One that shows these until others are kept.
    pub fn showing(own: &Certificates) -> Result<Self, CertificateError> {
        let own = Arc::new(own.certified_key()?);
        let (key, told, ended) = Default::default();
        Ok(Self { key, own, told, ended })
    }

    /// When the certificate ended that was replaced lately, if it had.
    pub fn ended_lately(&self) -> Option<Timestamp> {
        let ended = *self.ended.read().expect("nobody panics while holding it");
        ended.filter(|(_, found)| found.elapsed() < TOLD_FOR).map(|(at, _)| at)
    }

    /// Whether the API server has been told for long enough to ask the webhook and believe it.
    pub fn is_believed(&self) -> bool {
        let told = *self.told.read().expect("nobody panics while holding it");
        told.is_some_and(|at| at.elapsed() >= LEARNT_AFTER)
    }

    /// Whether the kept one is known.
    pub fn is_known(&self) -> bool {
        self.key.read().expect("nobody panics while holding it").is_some()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let key = self.key.read().expect("nobody panics while holding it").clone();
        Some(key.unwrap_or_else(|| self.own.clone()))
    }
}

/// Whether the API server knows whom to believe.
enum Heard {
    /// There is no configuration to tell it by.
    Nobody,
    /// It had been told.
    Before,
    /// It was told now.
    Now,
}

/// Keeps certificates.
pub struct Keeper {
    config: KeeperConfig,
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    current: Arc<CurrentCertificate>,
    recorder: Recorder,
    telemetry: Arc<Telemetry>,
    leads: Leadership,
}

impl Keeper {
    /// A keeper for a server that shows `current`.
    pub fn new(
        client: Client,
        config: KeeperConfig,
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

    /// Keeps them for as long as the program runs.
    pub async fn run(mut self) {
        loop {
            match tokio::time::timeout(MOST_TIME, self.look()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.telemetry.server_error("certificates", &error),
                Err(_) => {
                    let seconds = MOST_TIME.as_secs();
                    tracing::warn!(seconds, "no answer about the webhook's certificates in time");
                }
            }
            // A new leader has work to do at once.
            let _ = tokio::time::timeout(INTERVAL, self.leads.changed()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn look(&self) -> kube::Result<()> {
        let secret = self.secrets.get_opt(&self.config.secret).await?;
        let mut kept = secret.as_ref().and_then(read);
        let now = Timestamp::now();
        let is_usable = |kept: &Certificates| {
            !kept.are_due(now) && kept.are_for(&self.config.names) && kept.certified_key().is_ok()
        };
        if self.leads.is_held() && !kept.as_ref().is_some_and(is_usable) {
            match Certificates::make(&self.config.names, now, kept.as_ref()) {
                Ok(made) => {
                    let written = self.write(secret, &made).await?;
                    tracing::info!(ends = made.ends, "certificates of the webhook made");
                    self.tell(&written, kept.as_ref(), now).await;
                    kept = Some(made);
                }
                Err(error) => tracing::error!(%error, "no certificates for the webhook"),
            }
        }
        let Some(kept) = kept else { return Ok(()) };
        // Clients are told first: they believe the new authority before they meet it.
        if self.leads.is_held() {
            let heard = self.tell_server(&kept).await?;
            let mut told = self.current.told.write().expect("nobody panics while holding it");
            *told = match heard {
                Heard::Nobody => None,
                Heard::Before => Some(told.unwrap_or_else(Instant::now)),
                Heard::Now => Some(Instant::now()),
            };
        } else {
            *self.current.told.write().expect("nobody panics while holding it") = None;
        }
        match kept.certified_key() {
            Ok(key) => {
                *self.current.key.write().expect("nobody panics while holding it") =
                    Some(Arc::new(key));
                self.telemetry.certificate_ends(kept.ends);
            }
            Err(error) => tracing::error!(%error, "the webhook's secret is of no use"),
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
            // The version that was read goes along: of two who write at once, one is refused.
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

    /// Tells of certificates that were replaced, and loudly of such that had ended: pods that
    /// started meanwhile have the size of their template.
    async fn tell(&self, secret: &Secret, before: Option<&Certificates>, now: Timestamp) {
        let Some(before) = before else { return };
        let has_ended = before.ends <= now.as_second();
        let ends = Timestamp::from_second(before.ends).unwrap_or(now);
        if has_ended {
            *self.current.ended.write().expect("nobody panics while holding it") =
                Some((ends, Instant::now()));
        }
        let why = if has_ended {
            format!("ended at {ends}")
        } else if before.are_due(now) {
            format!("would have ended at {ends}")
        } else {
            format!("was not that of {}", self.config.names.join(", "))
        };
        let event = Event {
            type_: if has_ended { EventType::Warning } else { EventType::Normal },
            reason: "CertificateReplaced".to_owned(),
            note: Some(format!("the webhook's certificate {why} and was replaced")),
            action: "Replace".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &secret.object_ref(&())).await {
            self.telemetry.server_error("event", &error);
        }
    }

    /// Tells the API server whom to believe.
    async fn tell_server(&self, kept: &Certificates) -> kube::Result<Heard> {
        let name = &self.config.configuration;
        let Some(configuration) = self.configurations.get_opt(name).await? else {
            tracing::warn!(
                name,
                "there is no such webhook configuration: pods are not sized when they start"
            );
            return Ok(Heard::Nobody);
        };
        let bundle = ByteString(kept.authorities.as_bytes().to_vec());
        let webhooks = configuration.webhooks.unwrap_or_default();
        if webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle))
        {
            return Ok(Heard::Before);
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
        Ok(Heard::Now)
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
