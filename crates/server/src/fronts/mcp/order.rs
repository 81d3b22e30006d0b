//! [`Order`]: the commands of one client take effect in the order in which it sent them (`[X5]`).

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::request::Parts;
use memory_tool::command::{CommandName, CommandQueue, Turn};
use memory_tool::lock;
use rmcp::model::{ClientRequest, Extensions, GetExtensions as _, GetMeta as _, JsonRpcRequest, RequestId};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::fronts::mcp::tools;

/// The time to wait for an earlier request, which another connection may deliver later.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// The number of such waits in vain after which the ids of a client count as not consecutive.
const MAX_MISSING: u32 = 3;

/// The number of ids that may be ahead of a missing one.
const MAX_AHEAD: usize = 1_024;

/// The number of clients without sessions whose order is known, and of the connections of each.
const MAX_CLIENTS: usize = 1_024;
const MAX_CONNECTIONS: usize = 32;

/// How far the id of a request can be ahead of the last one of its client.
const MAX_GAP: i64 = 64;

/// The time after which a client without a session counts as gone, if others can have sent a request.
const REST: Duration = Duration::from_secs(60);

/// The interval of the checks whether only one client can have sent a request.
const CHECK: Duration = Duration::from_millis(5);

/// The turn of a request, which it waits for. It stays with the request until the command runs.
#[derive(Clone)]
pub(super) struct PendingTurn(Arc<Mutex<Option<Turn>>>);

impl PendingTurn {
    fn new(turn: Turn) -> Self {
        Self(Arc::new(Mutex::new(Some(turn))))
    }

    /// Takes the turn of a request, which the transport attached to it.
    pub(super) fn take(extensions: &Extensions) -> Option<Turn> {
        let of_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        lock(&extensions.get::<Self>().or_else(of_http)?.0).take()
    }
}

/// The order of the commands of one client.
///
/// One connection delivers requests in order, so a turn can be taken as soon as a request is read. Parallel requests
/// over HTTP use several connections. Their ids tell the order, because the clients of the official SDKs count them.
#[derive(Debug)]
pub(super) struct Order {
    queue: CommandQueue,
    ids: Mutex<Ids>,
    /// Notified when `Ids::next` grows.
    advanced: Notify,
}

#[derive(Debug, Default)]
struct Ids {
    /// All requests with lower ids have arrived or are missing.
    next: i64,
    /// Later ones that have arrived.
    ahead: BTreeSet<i64>,
    /// Requests of this client that have not arrived in their order yet.
    waiting: BTreeSet<i64>,
    /// Ids that were missing. Their requests can still arrive.
    late: BTreeSet<i64>,
    missing: u32,
}

impl Order {
    /// The order of a client whose next request has this id.
    pub(super) fn new(next: i64) -> Self {
        Self::in_queue(next, CommandQueue::new())
    }

    fn in_queue(next: i64, queue: CommandQueue) -> Self {
        Self { queue, ids: Mutex::new(Ids { next, ..Ids::default() }), advanced: Notify::new() }
    }

    /// The order of a client without a session. Its first requests can be parallel; this one arrives first. Clients
    /// count from 0 or 1.
    fn of_stranger(id: i64, queue: CommandQueue) -> Self {
        let order = Self::in_queue(if (2..MAX_GAP).contains(&id) { 0 } else { id }, queue);
        lock(&order.ids).late.extend(id.saturating_sub(MAX_GAP).max(0)..id.max(0));
        order
    }

    /// The order of a client whose first request was this one.
    pub(super) fn after(first: &RequestId) -> Self {
        match first {
            RequestId::Number(id) => Self::new(id.saturating_add(1)),
            RequestId::String(_) => Self::new(0),
        }
    }

    /// Takes the turn of a request that arrives after all earlier ones.
    pub(super) fn enter(&self, request: &mut JsonRpcRequest<ClientRequest>) {
        if let Some(command) = command(&request.request) {
            let turn = self.queue.enter(command);
            request.request.extensions_mut().insert(PendingTurn::new(turn));
        }
    }

    /// Takes the turn of a request after the earlier ones. Returns `None` if the request runs no command.
    pub(super) async fn enter_by_id(&self, request: &JsonRpcRequest<ClientRequest>) -> Option<PendingTurn> {
        let command = command(&request.request);
        let RequestId::Number(id) = request.id else {
            return Some(PendingTurn::new(self.queue.enter(command?)));
        };
        let arrival = Arrival { order: self, id };
        let command = command?;
        lock(&self.ids).waiting.insert(id);
        loop {
            // Registered before the check, so that no change is missed.
            let advanced = self.advanced.notified();
            if lock(&self.ids).is_next(id) {
                // The turns of later requests are taken after `arrival` is dropped.
                let turn = self.queue.enter(command);
                drop(arrival);
                return Some(PendingTurn::new(turn));
            }
            if timeout(MAX_DELAY, advanced).await.is_err() {
                lock(&self.ids).skip_missing();
                self.advanced.notify_waiters();
            }
        }
    }
}

/// Counts a request as arrived when it is dropped, also if its client does not wait for its turn.
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
        if self.late.remove(&id) {
            // It was slow, so the ids are consecutive.
            self.missing = self.missing.saturating_sub(1);
        }
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
            let missing = (self.next..*first).filter(|id| !self.ahead.contains(id));
            self.late.extend(missing.take(MAX_GAP as usize));
            while self.late.len() > MAX_AHEAD {
                self.late.pop_first();
            }
            self.next = *first;
            self.ahead = self.ahead.split_off(first);
            self.missing = self.missing.saturating_add(1);
        }
        self.advance();
    }

    /// How many earlier requests can be missing. `None` if the client cannot have sent this id, for example because it
    /// sent it before.
    fn gap(&self, id: i64) -> Option<i64> {
        if self.ahead.contains(&id) || self.waiting.contains(&id) {
            return None;
        }
        if self.late.contains(&id) {
            return Some(0);
        }
        let gap = id.checked_sub(self.next).filter(|gap| (0..MAX_GAP).contains(gap))?;
        let arrived = self.ahead.range(..id).chain(self.waiting.range(self.next..id)).count();
        Some(gap - i64::try_from(arrived).unwrap_or(gap))
    }

    fn advance(&mut self) {
        while self.ahead.remove(&self.next) {
            self.next = self.next.saturating_add(1);
        }
    }
}

/// The orders of clients without sessions, such as clients of the revision 2026-07-28. Their connections and the ids of
/// their requests tell them apart, as far as possible. Only a token for each client makes it certain.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<VecDeque<Stranger>>);

#[derive(Debug)]
struct Stranger {
    sender: Sender,
    order: Arc<Order>,
    last: Instant,
    connections: VecDeque<u64>,
}

/// The common parts of all requests of one client: the token, the address, and the name and version of the program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Sender(u64);

impl Sender {
    pub(super) fn of(token: &str, address: Option<IpAddr>, request: &ClientRequest) -> Self {
        let program = request.get_meta().get("io.modelcontextprotocol/clientInfo").map(Value::to_string);
        let mut hasher = DefaultHasher::new();
        (token, address, program).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl Strangers {
    /// The order of the client that sent a request. While it can be of several clients, and one of them can have sent
    /// earlier requests that have not arrived, this waits.
    pub(super) async fn order(&self, sender: &Sender, connection: Option<u64>, id: &RequestId) -> Arc<Order> {
        let RequestId::Number(id) = id else { return Arc::new(Order::new(0)) };
        let start = Instant::now();
        loop {
            if let Some(order) = self.find(sender, connection, *id, start.elapsed() >= MAX_DELAY) {
                return order;
            }
            sleep(CHECK).await;
        }
    }

    /// `None` if the order is not certain yet.
    fn find(&self, sender: &Sender, connection: Option<u64>, id: i64, is_last: bool) -> Option<Arc<Order>> {
        let mut strangers = lock(&self.0);
        let is_bound = |stranger: &Stranger| connection.is_some_and(|given| stranger.connections.contains(&given));
        let own = strangers.iter().enumerate().filter(|(_, stranger)| stranger.sender == *sender);
        let gap = |(index, stranger): (usize, &Stranger)| Some((lock(&stranger.order.ids).gap(id)?, index));
        let candidates: Vec<_> = own.clone().filter_map(gap).collect();
        let bound = candidates.iter().find(|(_, index)| is_bound(&strangers[*index]));
        let (found, is_certain) = match (bound, &candidates[..]) {
            (Some((_, bound)), _) => (Some(*bound), true),
            (None, []) => (None, true),
            (None, [(_, only)]) => (Some(*only), true),
            (None, several) => {
                let active = |(_, index): &&(i64, usize)| strangers[*index].last.elapsed() < REST;
                let several: Vec<_> = if several.iter().any(|candidate| active(&candidate)) {
                    several.iter().filter(active).collect()
                } else {
                    several.iter().collect()
                };
                if several.len() > 1 && !is_last && several.iter().any(|(gap, _)| *gap > 0) {
                    return None;
                }
                // Among the nearest ones, the one that was used last.
                (several.iter().min_by_key(|(gap, index)| (*gap, Reverse(*index))).map(|(_, index)| *index), false)
            }
        };
        let queue = || own.clone().next().map(|(_, stranger)| stranger.order.queue.clone()).unwrap_or_default();
        let new = || Order::of_stranger(id, queue());
        let new = found.is_none().then(|| Stranger {
            sender: sender.clone(),
            order: Arc::new(new()),
            last: Instant::now(),
            connections: VecDeque::new(),
        });
        let mut stranger = found.and_then(|index| strangers.remove(index)).or(new)?;
        lock(&stranger.order.ids).waiting.insert(id);
        stranger.last = Instant::now();
        let order = Arc::clone(&stranger.order);
        if let Some(connection) = connection.filter(|_| is_certain) {
            strangers.iter_mut().for_each(|other| other.connections.retain(|given| *given != connection));
            stranger.bind(connection);
        }
        if strangers.len() >= MAX_CLIENTS {
            strangers.pop_front();
        }
        strangers.push_back(stranger); // the one that was used last is the last one
        Some(order)
    }
}

impl Stranger {
    fn bind(&mut self, connection: u64) {
        if self.connections.contains(&connection) {
            return;
        }
        if self.connections.len() >= MAX_CONNECTIONS {
            self.connections.pop_front();
        }
        self.connections.push_back(connection);
    }
}

/// The command that a request runs, if it runs one. Reading a resource is a view.
pub(super) fn command(request: &ClientRequest) -> Option<Option<CommandName>> {
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
                if let Some(pending) = order.enter_by_id(&request).await {
                    let turn = lock(&pending.0).take().unwrap();
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
        assert_eq!(missing(), 0);
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
        for id in 0..MAX_AHEAD as i64 + 10 {
            order.enter_by_id(&request(2 * id + 1, "ping", json!({}))).await;
        }
        assert!(lock(&order.ids).ahead.len() <= MAX_AHEAD);
    }

    /// A request of a client arrives on a connection.
    async fn arrive(strangers: &Strangers, sender: &Sender, connection: u64, id: i64) -> Arc<Order> {
        let order = strangers.order(sender, Some(connection), &RequestId::Number(id)).await;
        drop(Arrival { order: &order, id });
        order
    }

    #[tokio::test(start_paused = true)]
    async fn clients_without_sessions_are_told_apart() {
        let (strangers, sender, other) = (Strangers::default(), Sender(1), Sender(2));
        let first = arrive(&strangers, &sender, 1, 1).await;
        assert!(Arc::ptr_eq(&first, &arrive(&strangers, &sender, 1, 2).await));
        // It has seen this id.
        let second = arrive(&strangers, &sender, 2, 1).await;
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &arrive(&strangers, &sender, 2, 2).await));
        assert!(Arc::ptr_eq(&first, &arrive(&strangers, &sender, 1, 3).await));
        assert!(!Arc::ptr_eq(&first, &arrive(&strangers, &other, 3, 4).await));
        // A request overtook the one before it.
        assert!(Arc::ptr_eq(&first, &arrive(&strangers, &sender, 1, 5).await));
        for id in 0..MAX_CLIENTS as i64 + 10 {
            arrive(&strangers, &other, 3, id * 100).await;
        }
        assert!(lock(&strangers.0).len() <= MAX_CLIENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn parallel_first_requests_are_of_one_client() {
        for last in [4, 100] {
            let (strangers, sender) = (Strangers::default(), Sender(1));
            let first = strangers.order(&sender, Some(1), &RequestId::Number(last)).await;
            if last == 4 {
                assert_eq!(run(&first, [4, 0, 2, 1, 3].map(delete).into()).await, [0, 1, 2, 3, 4]);
            }
            for (connection, id) in [(2, last - 4), (3, last - 2), (4, last + 2), (3, last + 1)] {
                if last == 100 || id > last {
                    let order = arrive(&strangers, &sender, connection, id).await;
                    assert!(Arc::ptr_eq(&first, &order), "{id} after {last}");
                }
            }
        }
    }

    /// Another client stopped at the id before.
    #[tokio::test(start_paused = true)]
    async fn a_request_on_a_new_connection_waits_for_earlier_ones_of_its_client() {
        for rest in [Duration::ZERO, 2 * REST] {
            let (strangers, sender) = (Arc::new(Strangers::default()), Sender(1));
            for id in 1..=10 {
                arrive(&strangers, &sender, 1, id).await;
            }
            sleep(rest).await;
            for id in 1..=8 {
                arrive(&strangers, &sender, 2, id).await;
            }
            let order = Arc::clone(&lock(&strangers.0).back().unwrap().order);
            let ran = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for (connection, id) in [(3, 11), (2, 9), (4, 10)] {
                let (strangers, sender, order, ran) =
                    (Arc::clone(&strangers), sender.clone(), Arc::clone(&order), Arc::clone(&ran));
                tasks.push(tokio::spawn(async move {
                    let request = delete(id);
                    let found = strangers.order(&sender, Some(connection), &request.id).await;
                    assert!(Arc::ptr_eq(&found, &order), "{id}");
                    let turn = lock(&found.enter_by_id(&request).await.unwrap().0).take().unwrap();
                    let _guard = turn.await;
                    lock(&ran).push(id);
                }));
                sleep(Duration::from_millis(50)).await;
            }
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*lock(&ran), [9, 10, 11], "after {rest:?}");
        }
    }
}
