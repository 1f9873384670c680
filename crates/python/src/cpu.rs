//! What this machine's processor offers, for `--version` and bug reports.

/// The x86-64 level, or the architecture elsewhere.
pub fn level() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let v2 = has!("sse4.2") && has!("popcnt");
        let v3 = v2 && has!("avx2") && has!("bmi2") && has!("fma");
        let v4 = v3 && has!("avx512f") && has!("avx512bw") && has!("avx512vl");
        match (v4, v3, v2) {
            (true, ..) => "x86-64-v4",
            (_, true, _) => "x86-64-v3",
            (.., true) => "x86-64-v2",
            _ => "x86-64-v1",
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH
}
