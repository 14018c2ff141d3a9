//! A platform in text: a line for each function.

use super::tenants::Tenants;

const WIDTH: usize = 20;

pub(crate) fn draw(tenants: &Tenants) -> String {
    let mut text = format!(
        "{}  cpu {:>3.0} %  memory {:>3.0} %\n",
        tenants.platform.now(),
        tenants.platform.cpu_in_use() * 100.0,
        tenants.platform.memory_in_use() * 100.0
    );
    for tenant in &tenants.present {
        let allocation = tenants.platform.allocation(tenant.id);
        let preserved = tenant.obs[0].clamp(0.0, 1.0);
        let filled = (preserved * WIDTH as f32).round() as usize;
        text.push_str(&format!(
            "{:<20} {:>2} x {:>5} {:>6}  SLO {}{} {:.2}\n",
            tenants.platform.name(tenant.id),
            allocation.replicas,
            allocation.cpu.to_string(),
            allocation.memory.to_string(),
            "#".repeat(filled),
            ".".repeat(WIDTH - filled),
            preserved,
        ));
    }
    text
}
