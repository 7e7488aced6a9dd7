//! How much of a Session's events is read at a time (SC-11.6).

use berth_store::testing::TestDatabase;
use domain::{
    run::{Delta, DeltaKind, EventBody, Item, ItemBody, Message, RunEvent},
    session::Placement,
};

use crate::fixture::Fixture;

both! {
    async fn a_page_of_events_is_cut_by_count_and_by_size(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["hi"]).await;
        let machine = fixture.bind(session).await;
        let run = fixture.claim_queued(machine).await;
        let item = Item { key: "m".into(), body: ItemBody::Message(Message { text: String::new(), phase: None }) };
        let piece = |size: usize| EventBody::Delta(Delta { key: "m".into(), kind: DeltaKind::Text, index: 0, text: "x".repeat(size) });
        let sizes = [400_000, 500_000, 200_000, 3_000_000, 1, 1_100_000, 1_100_000];
        let bodies = std::iter::once(EventBody::ItemStarted(item)).chain(sizes.map(piece)).chain((0..100).map(|_| piece(1)));
        for (seq, body) in (1..).zip(bodies) {
            fixture.append(session, run, seq, vec![RunEvent::root(body)]).await;
        }
        let read = fixture.store.read();
        let last = read.last_event(session).await.unwrap().unwrap();
        let (mut after, mut pages) = (0, Vec::new());
        while after < last {
            let page = read.events_after(session, after).await.unwrap();
            let numbers: Vec<_> = page.iter().map(|event| event.number).collect();
            let expected: Vec<_> = (after + 1..).take(page.len()).collect();
            assert_eq!(numbers, expected, "nothing is passed over");
            let size: usize = page.iter().map(|event| serde_json::to_string(&event.payload).unwrap().len()).sum();
            assert!(page.len() == 1 || (page.len() <= 32 && size <= 1 << 20), "{} events of {size} bytes", page.len());
            pages.push(page.len());
            after = numbers.last().copied().expect("there is one more");
        }
        // What is larger than a page is one.
        assert!(pages.iter().filter(|length| **length == 1).count() >= 3, "{pages:?}");
        assert!(pages.contains(&32), "{pages:?}");
        assert!(read.events_after(session, last).await.unwrap().is_empty());
        fixture.store.close().await;
    }
}
