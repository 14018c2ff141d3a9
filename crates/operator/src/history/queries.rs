//! The queries to Prometheus for the history of pods.

use homeostat_autoscaler::api::ScaleTargetRef;

/// Queries with placeholders: `$namespace`, `$workload`, `$pods` (a regular expression of their names)
/// and `$window` (a duration for rates).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queries {
    /// Cores that each container used.
    pub cpu: String,
    /// Bytes that each container used.
    pub memory: String,
    /// Cores that each container requested.
    pub cpu_requests: String,
    /// Bytes that each container requested.
    pub memory_requests: String,
}

impl Default for Queries {
    /// The series of cadvisor, which every kubelet serves, and of kube-state-metrics.
    fn default() -> Self {
        let pods = r#"namespace="$namespace",pod=~"$pods""#;
        let used = format!(r#"{pods},container!="",container!="POD""#);
        let requested = |resource: &str| {
            format!(
                "max by (pod, container) \
                 (kube_pod_container_resource_requests{{{pods},resource=\"{resource}\"}})"
            )
        };
        Self {
            cpu: format!(
                "sum by (pod, container) \
                 (rate(container_cpu_usage_seconds_total{{{used}}}[$window]))"
            ),
            memory: format!(
                "max by (pod, container) (container_memory_working_set_bytes{{{used}}})"
            ),
            cpu_requests: requested("cpu"),
            memory_requests: requested("memory"),
        }
    }
}

/// Replaces the placeholders of a query.
pub(super) fn filled(query: &str, places: &[(&str, &str)]) -> String {
    places.iter().fold(query.to_owned(), |query, (place, text)| query.replace(place, text))
}

/// The characters of Kubernetes' random name suffixes.
const LETTERS: &str = "[bcdfghjklmnpqrstvwxz2456789]";

/// A regular expression for the names of a workload's pods, as part of a PromQL string: the current
/// pods, and all names that its controller may have given.
pub(super) fn pods_pattern(target: &ScaleTargetRef, present: &[String]) -> String {
    let present = present.iter().map(|name| literal(name));
    made_pattern(target).into_iter().chain(present).collect::<Vec<_>>().join("|")
}

/// Whether it is known how the workload's controller names its pods.
pub(super) fn names_pods(target: &ScaleTargetRef) -> bool {
    made_pattern(target).is_some()
}

/// The names that a workload's controller gives, if they are known.
fn made_pattern(target: &ScaleTargetRef) -> Option<String> {
    let name = literal(&target.name);
    match target.kind.as_str() {
        // Argo Rollouts name pods as Deployments do.
        "Deployment" | "Rollout" => Some(format!("{name}-{LETTERS}{{1,10}}-{LETTERS}{{5}}")),
        "StatefulSet" => Some(format!("{name}-[0-9]+")),
        "ReplicaSet" | "ReplicationController" => Some(format!("{name}-{LETTERS}{{5}}")),
        _ => None,
    }
}

/// Escapes text for a regular expression in a PromQL string.
fn literal(text: &str) -> String {
    let escape = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c.to_string(),
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        _ => format!("\\\\{c}"),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(kind: &str, name: &str) -> ScaleTargetRef {
        ScaleTargetRef {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn pods_are_found_by_the_names_that_controllers_give() {
        let check = |kind: &str, expect: &str| {
            assert_eq!(pods_pattern(&target(kind, "shop.web"), &["odd".to_owned()]), expect);
        };
        check("StatefulSet", r"shop\\.web-[0-9]+|odd");
        check("ReplicaSet", r"shop\\.web-[bcdfghjklmnpqrstvwxz2456789]{5}|odd");
        check("Game", "odd");
        assert!(names_pods(&target("Rollout", "x")) && !names_pods(&target("Game", "x")));
    }

    #[test]
    fn a_name_cannot_break_out_of_its_query() {
        let pattern = pods_pattern(&target("Game", "x"), &[r#"a"} or up{x=~"\"#.to_owned()]);
        let query = filled(r#"up{pod=~"$pods"}"#, &[("$pods", &pattern)]);
        // Every quotation mark except the two of the query follows an odd number of backslashes.
        let mut open = 0;
        let mut backslashes = 0;
        for c in query.chars() {
            open += usize::from(c == '"' && backslashes % 2 == 0);
            backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        }
        assert_eq!(open, 2, "{query}");
    }

    #[test]
    fn the_default_queries_have_all_placeholders() {
        let queries = Queries::default();
        assert!(queries.cpu.contains("$namespace") && queries.cpu.contains("[$window]"));
        assert!(queries.memory.contains("$pods"));
        assert!(queries.cpu_requests.contains("resource=\"cpu\""));
    }
}
