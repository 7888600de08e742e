//! Every request that is answered, and its description in OpenAPI.

use crate::model::{
    Applied, Configuration, ConfigurationChange, CustomersFound, Forecast, Health, PlanFound, Refusal,
    Status, WhatIf,
};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// How the program stands.
    Status,
    /// Customers.
    Users,
    /// The plan of a customer.
    Plans,
    /// Its configuration.
    Configuration,
    /// A change of it.
    Change,
    /// Its file, read again.
    Reload,
    /// Its end.
    Drain,
    /// What a direction would do.
    WhatIf,
    /// This description.
    Description,
    /// Metrics.
    Metrics,
    /// Whether it works.
    Health,
    /// Whether packets pass, too.
    Ready,
    /// How the program stands, again and again.
    Events,
    /// A file of the page.
    File(&'static crate::files::File),
}

/// A request and what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Method of HTTP.
    pub method: &'static str,
    /// Path.
    pub path: &'static str,
    /// What it asks for.
    pub endpoint: Endpoint,
    /// What it does.
    pub summary: &'static str,
    /// Whether it is answered on a TCP address, too: it changes nothing, and tells no configuration.
    pub is_public: bool,
}

const fn route(
    method: &'static str,
    path: &'static str,
    endpoint: Endpoint,
    is_public: bool,
    summary: &'static str,
) -> Route {
    Route { method, path, endpoint, summary, is_public }
}

/// All of them.
pub const ROUTES: &[Route] = &[
    route(
        "GET",
        "/v1/status",
        Endpoint::Status,
        false,
        "How the program stands; counts are of the whole run.",
    ),
    route(
        "GET",
        "/v1/users",
        Endpoint::Users,
        false,
        "Customers: all that a look at the queues found, a part at a time, and those with a plan by name or address.",
    ),
    route(
        "GET",
        "/v1/plans",
        Endpoint::Plans,
        false,
        "The plan of a customer in force, or a key of it, by the path by which it changes.",
    ),
    route("GET", "/v1/config", Endpoint::Configuration, false, "The configuration in force, with every key."),
    route(
        "PATCH",
        "/v1/config",
        Endpoint::Change,
        false,
        "Changes keys of the configuration in force: all together between two packets, or none.",
    ),
    route(
        "POST",
        "/v1/reload",
        Endpoint::Reload,
        false,
        "Reads the file of the configuration again and puts it into force, as a whole or not at all. The body is that of a \
         change without keys; it may be left out.",
    ),
    route(
        "POST",
        "/v1/drain",
        Endpoint::Drain,
        false,
        "Ends the run in order: what waits is sent, and the kernel goes on forwarding between the ports.",
    ),
    route(
        "POST",
        "/v1/what-if",
        Endpoint::WhatIf,
        false,
        "What a direction would do with other keys or traffic, computed in the simulator. It changes nothing, and takes the \
         token at the page, as it takes processor time: what nobody else wants, for one question at a time and at most 30 s, \
         and only as long as whoever asked waits.",
    ),
    route(
        "GET",
        "/v1/events",
        Endpoint::Events,
        false,
        "Server-sent events: `history` with the last minutes, then a `status` twice a second. Who reads slowly gets fewer.",
    ),
    route("GET", "/v1/openapi.json", Endpoint::Description, false, "This description."),
    route("GET", "/metrics", Endpoint::Metrics, true, "Metrics in OpenMetrics, or in the older text format."),
    route("GET", "/health", Endpoint::Health, true, "Whether the packet loop turns; status 503 if not."),
    route("GET", "/ready", Endpoint::Ready, true, "Whether packets pass, too; status 503 if not."),
    route("GET", "/", Endpoint::File(&crate::files::HTML), false, "The page."),
    route("GET", "/page.css", Endpoint::File(&crate::files::STYLE), false, "How the page looks."),
    route("GET", "/page.js", Endpoint::File(&crate::files::SCRIPT), false, "What the page does."),
];

/// The name of a request in the description.
fn operation(route: &Route) -> String {
    match route.endpoint {
        Endpoint::File(_) => route.path.replace('/', "page_").replace("page_page.", "page_"),
        Endpoint::WhatIf => "what_if".into(),
        endpoint => format!("{endpoint:?}").to_lowercase(),
    }
}

/// What a question for customers may name.
fn users_parameters() -> Value {
    let columns: Vec<&str> = crate::customers::columns().collect();
    let text = json!({ "type": "string" });
    let parameters = [
        ("name", "A part of the name, in capitals or not.", text.clone()),
        ("address", "An IP address: the customer with the smallest network that has it.", text.clone()),
        ("direction", "Only this direction.", text),
        (
            "sort",
            "The column to sort by.",
            json!({ "type": "string", "enum": columns, "default": "delivered_bps" }),
        ),
        ("order", "Falling, but by name rising.", json!({ "type": "string", "enum": ["asc", "desc"] })),
        ("limit", "How many.", json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 })),
        ("offset", "From which on.", json!({ "type": "integer", "minimum": 0, "default": 0 })),
    ];
    let one = |(name, description, schema): (&str, &str, Value)| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    parameters.map(one).into_iter().collect()
}

/// The description of the interface.
pub fn description() -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let mut reference = |name: &str| match name {
        "Status" => generator.subschema_for::<Status>(),
        "Configuration" => generator.subschema_for::<Configuration>(),
        "ConfigurationChange" => generator.subschema_for::<ConfigurationChange>(),
        "Applied" => generator.subschema_for::<Applied>(),
        "Health" => generator.subschema_for::<Health>(),
        "PlanFound" => generator.subschema_for::<PlanFound>(),
        "CustomersFound" => generator.subschema_for::<CustomersFound>(),
        "WhatIf" => generator.subschema_for::<WhatIf>(),
        "Forecast" => generator.subschema_for::<Forecast>(),
        _ => generator.subschema_for::<Refusal>(),
    };
    let mut content = |name: &str| json!({ "application/json": { "schema": reference(name) } });
    let mut paths = serde_json::Map::new();
    for route in ROUTES {
        let answer = match route.endpoint {
            Endpoint::Status => content("Status"),
            Endpoint::Configuration => content("Configuration"),
            Endpoint::Change | Endpoint::Reload | Endpoint::Drain => content("Applied"),
            Endpoint::Health | Endpoint::Ready => content("Health"),
            Endpoint::WhatIf => content("Forecast"),
            Endpoint::Users => content("CustomersFound"),
            Endpoint::Plans => content("PlanFound"),
            Endpoint::Description => json!({ "application/json": {} }),
            Endpoint::Events => json!({ "text/event-stream": {} }),
            Endpoint::File(file) => json!({ file.kind: {} }),
            Endpoint::Metrics => json!({ crate::metrics::OPENMETRICS: {}, crate::metrics::PLAIN: {} }),
        };
        let mut operation = json!({
            "summary": route.summary,
            "operationId": operation(route),
            "responses": {
                "200": { "description": "Done.", "content": answer },
                "default": { "description": "Refused: nothing was changed.", "content": content("Refusal") },
            },
        });
        if matches!(route.endpoint, Endpoint::Change | Endpoint::Reload) {
            let is_required = matches!(route.endpoint, Endpoint::Change);
            operation["requestBody"] =
                json!({ "required": is_required, "content": content("ConfigurationChange") });
        }
        if matches!(route.endpoint, Endpoint::Users) {
            operation["parameters"] = users_parameters();
        }
        if matches!(route.endpoint, Endpoint::Plans) {
            let description = "`customers.NAME` or `customers.NAME.KEY`.";
            let schema = json!({ "type": "string" });
            operation["parameters"] = json!([
                { "name": "key", "in": "query", "required": true, "description": description, "schema": schema }
            ]);
        }
        if matches!(route.endpoint, Endpoint::WhatIf) {
            operation["requestBody"] = json!({ "required": true, "content": content("WhatIf") });
        }
        if matches!(route.endpoint, Endpoint::Health | Endpoint::Ready) {
            operation["responses"]["503"] =
                json!({ "description": "It does not work.", "content": content("Health") });
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Weir's control socket",
            "description": "HTTP on a Unix socket that belongs to root, and at the address of the page (`--page`), where what \
                            changes anything takes the header `Authorization: Bearer TOKEN`. A change without a body of JSON, or with one of more than \
                            64 KiB, is refused; so are more than 64 connections at once to the socket, and more than 512 to the address.",
            "version": "1",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://localhost", "description": "Through the socket, as with `curl --unix-socket`." }],
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

    /// Keys in alphabetical order, however the JSON library was built.
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let keys: BTreeMap<String, Value> = map.into_iter().collect();
                Value::Object(keys.into_iter().map(|(key, value)| (key, sorted(value))).collect())
            }
            Value::Array(list) => list.into_iter().map(sorted).collect(),
            value => value,
        }
    }

    #[test]
    fn the_description_in_the_repository_is_that_of_the_program() {
        if std::env::var_os("WEIR_REGENERATE").is_some() {
            let text = serde_json::to_string_pretty(&sorted(description())).unwrap() + "\n";
            std::fs::write(FILE, &text).unwrap();
        }
        let found = std::fs::read_to_string(FILE).unwrap_or_default();
        let found: Value = serde_json::from_str(&found).unwrap_or_default();
        assert!(
            found == description(),
            "docs/openapi.json is out of date. Remedy: WEIR_REGENERATE=1 cargo test -p weir-operate --lib description"
        );
    }

    #[test]
    fn everything_that_is_referred_to_is_described() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(String::from));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(list) => list.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let description = description();
        let mut found = Vec::new();
        references(&description, &mut found);
        assert!(found.len() > 10);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(description.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn nothing_public_changes_anything() {
        for route in ROUTES.iter().filter(|route| route.is_public) {
            assert_eq!(route.method, "GET");
        }
        let public = ROUTES.iter().filter(|route| route.is_public).map(|route| route.path);
        assert!(public.eq(["/metrics", "/health", "/ready"]));
    }
}
