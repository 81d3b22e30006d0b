//! The fronts: each translates requests and responses, and is independent of the others. They reach memories by
//! [`Door`](crate::memories::visit::Door).

mod api;
#[cfg(feature = "mcp")]
mod discovery;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
mod monitors;
mod page;
mod tool;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};

use crate::http::admission;
use crate::http::error::ApiError;
use crate::http::metrics::Metrics;
use crate::options::{Listen, ServerOptions};
use crate::service::{Routes, Service};
use page::PageState;

/// The fronts of a server, with their states.
#[derive(Debug)]
pub(crate) struct Fronts {
    /// The metrics of this process, if it has a recorder.
    recorded: Option<Metrics>,
    page: Arc<PageState>,
    #[cfg(feature = "mcp")]
    mcp: mcp::Mcp,
}

impl Fronts {
    pub(crate) fn new(options: &ServerOptions, address: &Listen, service: &Service, recorded: Option<Metrics>) -> Self {
        Self {
            recorded,
            page: Arc::new(PageState::new(options, address, service)),
            #[cfg(feature = "mcp")]
            mcp: mcp::Mcp::new(&options.memory()).separate_tools(options.separate_tools),
        }
    }

    /// Follows the files of the fronts.
    pub(crate) fn follow(&self) -> impl Future<Output = ()> + use<> {
        Arc::clone(&self.page.sessions).follow()
    }

    /// All paths that need a token, apart from MCP.
    fn routes(&self) -> Routes {
        let tool = ("/v1/memory_stores/{id}/tool", post(tool::call));
        let api = api::routes().into_iter().map(|(path, methods)| (path, methods.layer(from_fn(api::check_betas))));
        monitors::routes(self.recorded.clone()).into_iter().chain([tool]).chain(api).collect()
    }

    pub(crate) fn router(&self, service: &Arc<Service>) -> Router {
        let admitted =
            self.routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
        #[cfg(feature = "mcp")]
        let admitted = admitted.merge(self.mcp.routes());
        let gate = || Arc::clone(&service.gate);
        let admitted = admitted
            .method_not_allowed_fallback(async || ApiError::method())
            .fallback(async || ApiError::not_found("there is no such path"))
            .layer(DefaultBodyLimit::disable()) // `admit` limits it
            .layer(from_fn_with_state(gate(), admission::admit))
            .with_state(Arc::clone(service));
        let open = Router::new().route("/healthz", get(async || "ok\n"));
        #[cfg(feature = "mcp")]
        let open = service.gate.resource.iter().fold(open, |open, resource| {
            discovery::PATHS.into_iter().fold(open, |open, path| open.route(path, discovery::document(resource)))
        });
        let all = open.merge(page::router(&self.page)).merge(admitted);
        all.layer(from_fn_with_state(gate(), admission::identify)).layer(from_fn(keep_from_caches))
    }
}

/// A cache would give a response to clients without the token. Only the files of the page are for anyone.
async fn keep_from_caches(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.headers().get(CACHE_CONTROL).is_none_or(|value| value != page::STORED) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::body::Body;
    use axum::http::header::{ALLOW, HOST};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use memory_tool::{Actor, StoreUrl};
    use serde_json::Value;

    use super::*;
    use crate::access::tokens::{TokenEntry, TokenFile};
    use crate::access::{Grant, Right};

    /// The fronts of a service without memories, and an admin token.
    fn fronts(directory: &tempfile::TempDir) -> (Fronts, Arc<Service>, String) {
        let tokens = directory.path().join("tokens");
        let actor = Actor::from_trusted_name("ops").unwrap();
        let (entry, token) = TokenEntry::generate(actor, vec![Grant::All], Right::ALL.to_vec()).unwrap();
        TokenFile::new(&tokens).add(entry).unwrap();
        let options = ServerOptions::new(StoreUrl::Local(directory.path().to_owned()), tokens);
        let service = Arc::new(Service::new(&options, &options.listen).unwrap());
        (Fronts::new(&options, &options.listen, &service, None), service, token)
    }

    #[tokio::test]
    async fn the_document_has_all_routes_and_their_methods() {
        let directory = tempfile::tempdir().unwrap();
        let (fronts, service, token) = fronts(&directory);
        let document: Value = serde_json::from_str(monitors::OPENAPI).unwrap();
        let mut documented: BTreeMap<_, _> = document["paths"].as_object().unwrap().iter().collect();
        let mut paths: Vec<_> = fronts.routes().into_iter().map(|(path, _)| path).chain(["/healthz"]).collect();
        if cfg!(feature = "mcp") {
            paths.push("/mcp");
        } else {
            documented.remove(&"/mcp".to_owned());
        }
        assert_eq!(documented.len(), paths.len());
        let router = TowerToHyperService::new(fronts.router(&service));
        for path in paths {
            let methods = documented.get(&path.to_owned()).unwrap_or_else(|| panic!("{path} is not documented"));
            let path = path.replace(['{', '}'], "");
            let request = Request::builder().method("TRACE").uri(&path).header(HOST, "localhost");
            let request = request.header("x-api-key", &token).body(Body::empty()).unwrap();
            let response = router.call(request).await.unwrap();
            let allowed = response.headers()[ALLOW].to_str().unwrap().to_lowercase();
            let mut allowed: Vec<_> = allowed.split(',').filter(|method| *method != "head").collect();
            let mut methods: Vec<_> = methods.as_object().unwrap().keys().collect();
            allowed.sort_unstable();
            methods.sort_unstable();
            assert_eq!(allowed, methods, "{path}");
        }
    }
}
