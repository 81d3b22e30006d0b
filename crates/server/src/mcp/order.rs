//! [`Order`]: the commands of one client take effect in the order in which it sent them (`[X5]`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::request::Parts;
use memory_tool::command::{CommandName, CommandQueue, Turn};
use rmcp::model::{ClientRequest, Extensions, GetExtensions as _, JsonRpcRequest, RequestId};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::mcp::{lock, tools};

/// The time to wait for an earlier request, which another connection may deliver later.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// The number of such waits in vain after which the ids of a client count as not consecutive.
const MAX_MISSING: u32 = 3;

/// The number of ids that may be ahead of a missing one.
const MAX_AHEAD: usize = 1_024;

/// The number of clients without sessions whose order is known.
const MAX_CLIENTS: usize = 1_024;

/// The place of a request in the order. It stays with the request until the command runs.
#[derive(Clone)]
pub(super) struct Place(Arc<Mutex<Option<Turn>>>);

impl Place {
    fn new(turn: Turn) -> Self {
        Self(Arc::new(Mutex::new(Some(turn))))
    }

    /// Takes the place of a request, which the transport attached to it.
    pub(super) fn take(extensions: &Extensions) -> Option<Turn> {
        let of_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        lock(&extensions.get::<Self>().or_else(of_http)?.0).take()
    }
}

/// The order of the commands of one client.
///
/// One connection delivers requests in order, so a place can be taken as soon as a request is read. Parallel requests
/// over HTTP use several connections. Their ids tell the order, because the clients of the official SDKs count them.
#[derive(Debug)]
pub(super) struct Order {
    queue: CommandQueue,
    ids: Mutex<Ids>,
    /// Notified when `Ids::next` grows.
    advanced: Notify,
}

#[derive(Debug)]
struct Ids {
    /// All requests with lower ids have arrived or are missing.
    next: i64,
    /// Later ones that have arrived.
    ahead: BTreeSet<i64>,
    /// Commands that wait for an earlier request.
    waiting: BTreeSet<i64>,
    missing: u32,
}

impl Order {
    /// The order of a client whose next request has this id.
    pub(super) fn new(next: i64) -> Self {
        let ids = Ids { next, ahead: BTreeSet::new(), waiting: BTreeSet::new(), missing: 0 };
        Self { queue: CommandQueue::new(), ids: Mutex::new(ids), advanced: Notify::new() }
    }

    /// The order of a client whose first request was this one.
    pub(super) fn after(first: &RequestId) -> Self {
        match first {
            RequestId::Number(id) => Self::new(id.saturating_add(1)),
            RequestId::String(_) => Self::new(0),
        }
    }

    /// Takes the place of a request that arrives after all earlier ones.
    pub(super) fn enter(&self, request: &mut JsonRpcRequest<ClientRequest>) {
        if let Some(command) = command(&request.request) {
            let turn = self.queue.enter(command);
            request.request.extensions_mut().insert(Place::new(turn));
        }
    }

    /// Takes the place of a request after the earlier ones. Returns `None` if the request runs no command.
    pub(super) async fn enter_by_id(&self, request: &JsonRpcRequest<ClientRequest>) -> Option<Place> {
        let command = command(&request.request);
        let RequestId::Number(id) = request.id else {
            return Some(Place::new(self.queue.enter(command?)));
        };
        let arrival = Arrival { order: self, id };
        let command = command?;
        lock(&self.ids).waiting.insert(id);
        loop {
            // Registered before the check, so that no change is missed.
            let advanced = self.advanced.notified();
            if lock(&self.ids).is_next(id) {
                // The places of later requests are taken after `arrival` is dropped.
                let turn = self.queue.enter(command);
                drop(arrival);
                return Some(Place::new(turn));
            }
            if timeout(MAX_DELAY, advanced).await.is_err() {
                lock(&self.ids).skip_missing();
                self.advanced.notify_waiters();
            }
        }
    }
}

/// Counts a request as arrived when it is dropped, also if its client does not wait for its place.
struct Arrival<'a> {
    order: &'a Order,
    id: i64,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if lock(&self.order.ids).arrived(self.id) {
            self.order.advanced.notify_waiters();
        }
    }
}

impl Ids {
    /// Whether nothing earlier is missing, as far as the ids tell.
    fn is_next(&self, id: i64) -> bool {
        id <= self.next || self.missing >= MAX_MISSING
    }

    /// Returns whether commands that wait may be next.
    fn arrived(&mut self, id: i64) -> bool {
        self.waiting.remove(&id);
        if id >= self.next {
            self.ahead.insert(id);
        }
        let next = self.next;
        self.advance();
        if self.ahead.len() > MAX_AHEAD {
            self.missing = MAX_MISSING;
            self.ahead.clear();
            return true;
        }
        self.next != next
    }

    /// Stops waiting for the requests before the first one that waits.
    fn skip_missing(&mut self) {
        if let Some(first) = self.waiting.first().filter(|first| **first > self.next) {
            self.next = *first;
            self.ahead = self.ahead.split_off(first);
            self.missing = self.missing.saturating_add(1);
        }
        self.advance();
    }

    fn advance(&mut self) {
        while self.ahead.remove(&self.next) {
            self.next = self.next.saturating_add(1);
        }
    }
}

/// The orders of clients without sessions, such as clients of the revision 2026-07-28. Only the token and the ids of
/// their requests tell them apart.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<VecDeque<(Arc<str>, Arc<Order>)>>);

impl Strangers {
    /// The order of the client that sent a request.
    pub(super) fn order(&self, token: &Arc<str>, id: &RequestId) -> Arc<Order> {
        let RequestId::Number(id) = id else { return Arc::new(Order::new(0)) };
        let mut orders = lock(&self.0);
        let ahead = |order: &Order| id.checked_sub(lock(&order.ids).next).filter(|ahead| (0..64).contains(ahead));
        let candidates = orders.iter().enumerate().filter(|(_, (given, _))| given == token);
        let nearest = candidates.filter_map(|(index, (_, order))| Some((ahead(order)?, index))).min();
        // The order that was used last is the last one.
        let order = nearest
            .and_then(|(_, index)| orders.remove(index))
            .map_or_else(|| Arc::new(Order::new(*id)), |(_, order)| order);
        if orders.len() >= MAX_CLIENTS {
            orders.pop_front();
        }
        orders.push_back((Arc::clone(token), Arc::clone(&order)));
        order
    }
}

/// The command that a request runs, if it runs one. Reading a resource is a view.
fn command(request: &ClientRequest) -> Option<Option<CommandName>> {
    match request {
        ClientRequest::CallToolRequest(call) => Some(tools::command(&call.params)),
        ClientRequest::ReadResourceRequest(_) | ClientRequest::ListResourcesRequest(_) => Some(Some(CommandName::View)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ClientJsonRpcMessage;
    use serde_json::json;

    use super::*;

    fn request(id: i64, method: &str, params: serde_json::Value) -> JsonRpcRequest<ClientRequest> {
        let json = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        match serde_json::from_value(json).unwrap() {
            ClientJsonRpcMessage::Request(request) => request,
            other => panic!("not a request: {other:?}"),
        }
    }

    fn delete(id: i64) -> JsonRpcRequest<ClientRequest> {
        request(id, "tools/call", json!({"name": "memory", "arguments": {"command": "delete", "path": "/memories/a"}}))
    }

    /// Lets requests arrive in this order, and returns the order in which they run.
    async fn run(order: &Arc<Order>, requests: Vec<JsonRpcRequest<ClientRequest>>) -> Vec<i64> {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for request in requests {
            let (order, ran) = (Arc::clone(order), Arc::clone(&ran));
            tasks.push(tokio::spawn(async move {
                let RequestId::Number(id) = request.id else { panic!("not a number: {:?}", request.id) };
                if let Some(place) = order.enter_by_id(&request).await {
                    let turn = lock(&place.0).take().unwrap();
                    let _guard = turn.await;
                    lock(&ran).push(id);
                }
            }));
            // The request arrives before the next one.
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        lock(&ran).clone()
    }

    #[tokio::test]
    async fn commands_run_in_the_order_of_their_ids() {
        let order = Arc::new(Order::after(&RequestId::Number(0)));
        assert_eq!(run(&order, [3, 2, 1].map(delete).into()).await, [1, 2, 3]);
        // A request that runs no command also has an id.
        let list = request(5, "tools/list", json!({}));
        assert_eq!(run(&order, vec![delete(6), list, delete(4)]).await, [4, 6]);
        assert_eq!(run(&order, [7, 8, 9].map(delete).into()).await, [7, 8, 9]);
    }

    #[tokio::test]
    async fn a_missing_request_delays_later_ones_for_a_short_time_only() {
        let order = Arc::new(Order::new(1));
        let missing = || lock(&order.ids).missing;
        assert_eq!(run(&order, [5, 4, 3].map(delete).into()).await, [3, 4, 5]);
        assert_eq!(missing(), 1);
        // It may still arrive.
        assert_eq!(run(&order, [1, 6].map(delete).into()).await, [1, 6]);
        assert_eq!(missing(), 1);
        for id in [10, 20, 30, 40, 50] {
            assert_eq!(run(&order, vec![delete(id)]).await, [id]);
        }
        // The ids of this client are not consecutive.
        assert_eq!(missing(), MAX_MISSING);
    }

    #[tokio::test]
    async fn a_request_that_its_client_gives_up_delays_no_other() {
        let order = Arc::new(Order::new(1));
        let second = delete(2);
        assert!(timeout(Duration::ZERO, order.enter_by_id(&second)).await.is_err());
        assert_eq!(run(&order, [3, 1].map(delete).into()).await, [1, 3]);
        assert_eq!(lock(&order.ids).missing, 0);
    }

    #[tokio::test]
    async fn ids_that_are_far_ahead_are_not_kept() {
        let order = Arc::new(Order::new(0));
        for id in 0..10_000 {
            order.enter_by_id(&request(2 * id + 1, "ping", json!({}))).await;
        }
        assert!(lock(&order.ids).ahead.len() <= MAX_AHEAD);
    }

    #[test]
    fn clients_without_sessions_are_told_apart() {
        let (strangers, token, other) = (Strangers::default(), Arc::from("a"), Arc::from("b"));
        let order = |token, id| {
            let order = strangers.order(token, &RequestId::Number(id));
            drop(Arrival { order: &order, id });
            order
        };
        let first = order(&token, 1);
        assert!(Arc::ptr_eq(&first, &order(&token, 2)));
        let second = order(&token, 1);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first, &order(&token, 3)) && Arc::ptr_eq(&second, &order(&token, 2)));
        assert!(!Arc::ptr_eq(&first, &order(&other, 4)));
        // A request overtook the one before it.
        assert!(Arc::ptr_eq(&first, &order(&token, 5)));
        (0..10_000).for_each(|id| _ = order(&other, id * 100));
        assert!(lock(&strangers.0).len() <= MAX_CLIENTS);
    }
}
