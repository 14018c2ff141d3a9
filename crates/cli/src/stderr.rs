//! Words to standard error.

/// Writes a line to standard error. The reader may have gone away; that
/// must not end a run. Control characters of untrusted text are escaped.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = format!($($text)*);
        let _ = writeln!(std::io::stderr(), "{}", $crate::output::printable(&text));
    }};
}
