//! Words to standard error.

/// Writes a line to standard error. The reader may have gone away; that
/// must not end a run.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
