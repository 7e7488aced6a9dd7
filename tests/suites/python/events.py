"""Reading event streams."""


def kinds(events):
    return [event.type for event in events]


def text_of(events):
    """The last message that the agent said in these events."""
    done = [event.text for event in events if event.type == "agent.session.turn.output_text.done"]
    return done[-1] if done else None


def first(events, kind):
    return next(event for event in events if event.type == kind)


def check_order(events):
    """What holds for every stream: reliability invariants 2 and 4, S-SEQ."""
    seen_ids = [event.event_id for event in events]
    assert len(set(seen_ids)) == len(seen_ids), "an event came twice"
    terminal = {"agent.session.turn.completed", "agent.session.turn.failed", "agent.session.turn.cancelled"}
    created, ended, added = set(), set(), set()
    for event in events:
        turn = getattr(event, "turn_id", None)
        if event.type == "agent.session.turn.created":
            assert turn not in created, "a Turn was created twice"
            created.add(turn)
        elif event.type in terminal:
            assert turn in created and turn not in ended, "a Turn ended out of order"
            ended.add(turn)
        elif event.type == "agent.session.turn.item.added":
            added.add(event.item.id)
        elif event.type == "agent.session.turn.item.done":
            assert event.item.id in added, "an Item ended that never began"
    return created, ended
