//! Messages of the control socket.

use super::messages::{ControlRequest, PendingReport};

/// A request, as a mount gets it, and an answer, as a command gets it.
pub(crate) fn message(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(request) = line.parse::<ControlRequest>() {
        assert_eq!(request.line().parse(), Ok(request));
    }
    let answer: serde_json::Result<Result<PendingReport, String>> = serde_json::from_str(line);
    if let Ok(answer) = answer {
        let again = serde_json::to_string(&answer).unwrap();
        assert_eq!(
            serde_json::from_str::<Result<PendingReport, String>>(&again).unwrap(),
            answer
        );
    }
}
