//! Ways to break, shared by the faulty plugins.

/// Breaks as told, or not: an unknown name is no fault. `say` writes one line to the log.
pub fn break_at(fault: &str, say: &dyn Fn(&str)) {
    match fault {
        "loop" => loop {
            std::hint::spin_loop();
        },
        "panic" => panics(),
        "recursion" => {
            std::hint::black_box(recursion(1));
        }
        "memory" => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            // 4 GiB, touched.
            for _ in 0..4096 {
                all.push(std::hint::black_box(vec![1; 1 << 20]));
            }
        }
        "log" => {
            for number in 0..1_000_000_u32 {
                say(&format!("line {number}"));
            }
        }
        _ => {}
    }
}

/// A text of 1 GiB, if the fault is `output`.
#[must_use]
pub fn large(fault: &str) -> Option<String> {
    (fault == "output").then(|| "x".repeat(1 << 30))
}

#[allow(clippy::panic, reason = "that is the fault")]
fn panics() {
    panic!("told to panic");
}

#[allow(unconditional_recursion, reason = "that is the fault")]
fn recursion(depth: u64) -> u64 {
    std::hint::black_box(depth) + recursion(std::hint::black_box(depth + 1))
}
