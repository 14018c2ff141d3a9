//! Recommendations for workloads: as a table, as JSON, and as patches for a repository.

use homeostat_autoscaler::api::{cpu_quantity, memory_quantity};
use homeostat_autoscaler::history::{Advice, ContainerAdvice, Known};
use homeostat_autoscaler::update::resources;
use homeostat_autoscaler::workload::{HpaBounds, Workload};
use homeostat_core::{Bytes, Millicores, SimDuration};
use serde_json::{Value, json};

use super::format::{plain, table};

/// A workload and its recommendation.
#[derive(Debug, Clone)]
pub struct Advised {
    /// The workload.
    pub workload: Workload,
    /// The HPA that scales it. Patches do not contain a number of pods that an HPA may control.
    pub hpa: KnownHpa,
    /// The recommendation, or why there is none.
    pub advice: Result<Advice, String>,
}

/// Whether an HPA scales a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownHpa {
    /// HPAs cannot be listed.
    Unknown,
    /// No HPA does.
    None,
    /// This HPA does.
    Some(HpaBounds),
}

impl KnownHpa {
    /// The HPA, if it is known.
    pub fn bounds(&self) -> Option<&HpaBounds> {
        match self {
            Self::Some(bounds) => Some(bounds),
            Self::Unknown | Self::None => None,
        }
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

/// A table, followed by the reasons.
pub fn advice_table(all: &[Advised]) -> String {
    let header =
        ["NAMESPACE", "WORKLOAD", "PODS", "CONTAINER", "CPU", "MEMORY", "ALL PODS", "HISTORY"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut why = String::new();
    let mut together = (0.0, 0.0);
    for Advised { workload, hpa, advice } in all {
        let name = (plain(&workload.namespace), plain(&workload.to_string()));
        why.push_str(&format!("\n{} {}\n", name.0, name.1));
        let advice = match advice {
            Ok(advice) => advice,
            Err(problem) => {
                why.push_str(&format!("  - {}\n", plain(problem)));
                let pods = workload.replicas.to_string();
                rows.push(vec![
                    name.0,
                    name.1,
                    pods,
                    "-".to_owned(),
                    "unknown: see below".to_owned(),
                ]);
                continue;
            }
        };
        let (now, then) = advice.totals();
        let difference = (then.0 - now.0, then.1 - now.1);
        together = (together.0 + difference.0, together.1 + difference.1);
        for (index, container) in advice.containers.iter().enumerate() {
            let first = |text: String| if index == 0 { text } else { String::new() };
            rows.push(vec![
                first(name.0.clone()),
                first(name.1.clone()),
                first(change(&advice.replicas.0.to_string(), &advice.replicas.1.to_string())),
                plain(&container.present.name),
                cpu_change(container),
                memory_change(container),
                first(difference_text(difference.0, difference.1)),
                first(history_text(&advice.known)),
            ]);
        }
        for reason in &advice.reasons {
            why.push_str(&format!("  - {}\n", plain(reason)));
        }
        why.push_str(&alternatives(advice));
        if let KnownHpa::Some(hpa) = hpa {
            why.push_str(&format!(
                "  - HorizontalPodAutoscaler {} scales it between {} and {}: patches do not contain \
                 the number of pods\n",
                plain(&hpa.name),
                hpa.replicas.0,
                hpa.replicas.1
            ));
        }
    }
    let together =
        format!("\nTotal change of requests: {}.\n", difference_text(together.0, together.1));
    format!("{}{together}\nWhy:\n{}", table(&rows), why.trim_start_matches('\n'))
}

/// JSON for programs.
pub fn advice_json(all: &[Advised], source: &str) -> Value {
    let container = |ContainerAdvice { present, target }: &ContainerAdvice| {
        json!({
            "name": present.name,
            "cpu": {
                "now": present.cpu_request.map(|cpu| cpu_quantity(cpu).0),
                "recommended": cpu_quantity(target.0).0,
            },
            "memory": {
                "now": present.memory_request.map(|memory| memory_quantity(memory).0),
                "recommended": memory_quantity(target.1).0,
            },
        })
    };
    let workload = |Advised { workload, hpa, advice }: &Advised| {
        let mut value = json!({
            "namespace": workload.namespace,
            "kind": workload.target.kind,
            "name": workload.target.name,
            "horizontal_autoscaler": hpa.bounds().map(|hpa| &hpa.name),
        });
        match advice {
            Err(problem) => value["problem"] = json!(problem),
            Ok(advice) => {
                let (now, then) = advice.totals();
                value["replicas"] =
                    json!({ "now": advice.replicas.0, "recommended": advice.replicas.1 });
                value["containers"] = advice.containers.iter().map(container).collect();
                value["requested"] = json!({
                    "cores": { "now": now.0, "recommended": then.0 },
                    "gib": { "now": now.1 / GIB, "recommended": then.1 / GIB },
                });
                value["known"] = json!({
                    "hours": advice.known.span.seconds() / 3600.0,
                    "samples": advice.known.pod_samples,
                    "confidence": advice.known.word(),
                });
                value["alternatives"] = json!({
                    "hpa_replicas": advice.hpa_replicas,
                    "vpa_cpu": advice.vpa_size.map(|(cpu, _)| cpu_quantity(cpu).0),
                    "vpa_memory": advice.vpa_size.map(|(_, memory)| memory_quantity(memory).0),
                });
                value["reasons"] = json!(advice.reasons);
            }
        }
        value
    };
    json!({ "source": source, "workloads": all.iter().map(workload).collect::<Vec<_>>() })
}

/// Strategic merge patches, one YAML document for each workload that should change. Every string is
/// quoted, because YAML would read a container name such as `on` as a boolean.
pub fn advice_patches(all: &[Advised]) -> String {
    let mut text = String::new();
    for Advised { workload, hpa, advice } in all {
        let name = format!("{} {}", plain(&workload.namespace), plain(&workload.to_string()));
        let advice = match advice {
            Err(problem) => {
                text.push_str(&format!("# {name}: {}\n", plain(problem)));
                continue;
            }
            Ok(advice) if !advice.is_change() => {
                text.push_str(&format!("# {name}: nothing to change\n"));
                continue;
            }
            Ok(advice) => advice,
        };
        text.push_str(&format!("---\n# {name}, history of {}\n", history_text(&advice.known)));
        for reason in &advice.reasons {
            text.push_str(&format!("# - {}\n", plain(reason)));
        }
        let target = &workload.target;
        text.push_str(&format!(
            "apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\n  namespace: {}\nspec:\n",
            quoted(&target.api_version),
            quoted(&target.kind),
            quoted(&target.name),
            quoted(&workload.namespace)
        ));
        if *hpa == KnownHpa::None && advice.replicas.0 != advice.replicas.1 {
            text.push_str(&format!("  replicas: {}\n", advice.replicas.1));
        }
        text.push_str("  template:\n    spec:\n      containers:\n");
        for ContainerAdvice { present, target } in &advice.containers {
            text.push_str(&format!(
                "        - name: {}\n          resources:\n",
                quoted(&present.name)
            ));
            let sized = resources(present, *target);
            for (part, amounts) in sized.as_object().into_iter().flatten() {
                text.push_str(&format!("            {part}:\n"));
                for (resource, amount) in amounts.as_object().into_iter().flatten() {
                    let amount = quoted(amount.as_str().unwrap_or_default());
                    text.push_str(&format!("              {resource}: {amount}\n"));
                }
            }
        }
    }
    text
}

/// Quotes text: a JSON string is also a double-quoted YAML scalar.
fn quoted(text: &str) -> String {
    super::format::json(&text).expect("a string can be written as JSON")
}

fn change(from: &str, to: &str) -> String {
    if from == to { to.to_owned() } else { format!("{from}->{to}") }
}

fn cpu_change(container: &ContainerAdvice) -> String {
    let text = |cpu: Option<Millicores>| cpu.map_or("none".to_owned(), |cpu| cpu_quantity(cpu).0);
    change(&text(container.present.cpu_request), &text(Some(container.target.0)))
}

fn memory_change(container: &ContainerAdvice) -> String {
    let text = |memory: Option<Bytes>| {
        memory.map_or("none".to_owned(), |memory| memory_quantity(memory).0)
    };
    change(&text(container.present.memory_request), &text(Some(container.target.1)))
}

fn difference_text(cores: f64, bytes: f64) -> String {
    let parts = [(cores, "cores"), (bytes / GIB, "GiB")];
    let parts = parts.iter().filter(|(amount, _)| amount.abs() >= 0.005);
    let texts: Vec<String> = parts.map(|(amount, unit)| format!("{amount:+.2} {unit}")).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn history_text(known: &Known) -> String {
    match known.pod_samples {
        _ if known.span > SimDuration::ZERO => {
            let minutes = (known.span.seconds() / 60.0).round();
            let span = match minutes {
                ..120.0 => format!("{minutes}m"),
                ..2850.0 => format!("{:.0}h", minutes / 60.0),
                _ => format!("{:.0}d", minutes / 1440.0),
            };
            format!("{span} ({})", known.word())
        }
        _ => format!("one sample ({})", known.word()),
    }
}

fn alternatives(advice: &Advice) -> String {
    let pods = advice.hpa_replicas.map_or("unknown".to_owned(), |pods| format!("{pods} pods now"));
    let size = advice.vpa_size.map_or("unknown".to_owned(), |(cpu, memory)| {
        format!("{} CPU, {} memory per pod", cpu_quantity(cpu).0, memory_quantity(memory).0)
    });
    format!("  - alone, HPA: {pods}; VPA: {size}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_autoscaler::api::ScaleTargetRef;
    use homeostat_autoscaler::workload::{ContainerRecord, read_selector};

    /// Control characters, YAML syntax and line breaks.
    const NASTY: &str = "a\u{1b}[2J\u{9b}31m\u{202e}\n- kind: \"Secret\" # 'x': {y}\u{2028}\r";

    fn nasty() -> Vec<Advised> {
        let container = |name: &str| ContainerAdvice {
            present: ContainerRecord {
                name: name.to_owned(),
                cpu_request: Some(Millicores::new(500)),
                memory_request: Some(Bytes::from_mib(512)),
                cpu_limit: Some(Millicores::new(1000)),
                memory_limit: None,
                oom_killed_at: None,
            },
            target: (Millicores::new(250), Bytes::from_mib(256)),
        };
        let workload = |name: &str| Workload {
            namespace: NASTY.to_owned(),
            target: ScaleTargetRef {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: name.to_owned(),
            },
            replicas: 3,
            selector: read_selector("app=a").expect("valid"),
            containers: Vec::new(),
        };
        let names = ["on", "null", "1e3", "0x10", "~", "- a: b", "", NASTY];
        let advice = Advice {
            replicas: (3, 2),
            containers: names.iter().map(|name| container(name)).collect(),
            known: Known { span: SimDuration::from_secs(86_400), pod_samples: 10 },
            hpa_replicas: Some(2),
            vpa_size: None,
            reasons: vec![NASTY.to_owned()],
        };
        vec![
            Advised { workload: workload(NASTY), hpa: KnownHpa::None, advice: Ok(advice) },
            Advised { workload: workload("b"), hpa: KnownHpa::None, advice: Err(NASTY.to_owned()) },
        ]
    }

    #[test]
    fn untrusted_text_is_escaped_in_every_output() {
        let all = nasty();
        let outputs = [
            advice_table(&all),
            super::super::format::json(&advice_json(&all, "prometheus")).expect("written"),
            advice_patches(&all),
        ];
        for output in outputs {
            let is_bad =
                |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{202e}'));
            assert!(!output.contains(is_bad), "{output:?}");
            assert!(!output.contains("\n- kind"), "{output}");
        }
    }

    #[test]
    fn patches_keep_names_that_yaml_would_misread() {
        let text = advice_patches(&nasty());
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        assert_eq!(documents.len(), 1, "{text}");
        let patch = &documents[0];
        assert_eq!(patch["metadata"]["name"], NASTY);
        assert_eq!(patch["spec"]["replicas"], 2);
        let containers =
            patch["spec"]["template"]["spec"]["containers"].as_array().expect("a list");
        let names: Vec<&str> =
            containers.iter().map(|container| container["name"].as_str().expect("text")).collect();
        assert_eq!(names, ["on", "null", "1e3", "0x10", "~", "- a: b", "", NASTY]);
        let resources = &containers[0]["resources"];
        assert_eq!(resources["requests"], json!({ "cpu": "250m", "memory": "256Mi" }));
        // The limit keeps its proportion.
        assert_eq!(resources["limits"], json!({ "cpu": "500m" }));
    }

    #[test]
    fn patches_do_not_contain_a_number_that_an_hpa_may_control() {
        let mut all = nasty();
        all[0].hpa = KnownHpa::Some(HpaBounds {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            target: ("Deployment".to_owned(), "a".to_owned()),
            replicas: (2, 10),
        });
        let known = all[0].hpa.clone();
        assert!(!advice_patches(&all).contains("replicas"));
        all[0].hpa = KnownHpa::Unknown;
        assert!(!advice_patches(&all).contains("replicas"));
        all[0].hpa = known;
        assert!(
            advice_table(&all).contains("HorizontalPodAutoscaler web scales it between 2 and 10")
        );
    }
}
