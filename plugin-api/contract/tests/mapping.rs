//! The native mapping: WIT names, variants as `{"case": value}` or `"case"`.

use contract::common::{Encoding, Image};
use contract::harness_events::{Event, EventBody, ItemStatus, NativeSession, Origin};
use contract::harness_io::{Command, Input, Output, Receipt, ReceiptResult, StartTurn};
use contract::harness_launch::{Fill, FillPiece, Piece};
use serde_json::json;

#[test]
fn records_and_variants_have_their_wit_names() {
    let start = Input::Command(Command::StartTurn(StartTurn {
        run: "r".into(),
        messages: vec![],
    }));
    assert_eq!(
        serde_json::to_value(&start).unwrap(),
        json!({"command": {"start-turn": {"run": "r", "messages": []}}})
    );
    let receipt = Output::Receipt(Receipt {
        id: "r".into(),
        outcome: ReceiptResult::Done,
    });
    assert_eq!(
        serde_json::to_value(&receipt).unwrap(),
        json!({"receipt": {"id": "r", "outcome": "done"}})
    );
    let fill = Piece::Fill(FillPiece {
        value: Fill::RelayUrl,
        encoding: Encoding::JsonString,
    });
    assert_eq!(
        serde_json::to_value(&fill).unwrap(),
        json!({"fill": {"value": "relay-url", "encoding": "json-string"}})
    );
    assert_eq!(
        serde_json::to_value(ItemStatus::Incomplete).unwrap(),
        json!("incomplete")
    );
}

#[test]
fn what_is_written_is_read_back() {
    let event = Output::Event(Event {
        origin: Origin::Session,
        body: EventBody::NativeSession(NativeSession {
            id: "t".into(),
            durable: true,
        }),
    });
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<Output>(&text).unwrap(), event);
    let image = Image {
        media_type: "image/png".into(),
        data: vec![0, 255],
    };
    let text = serde_json::to_string(&image).unwrap();
    assert_eq!(serde_json::from_str::<Image>(&text).unwrap(), image);
}
