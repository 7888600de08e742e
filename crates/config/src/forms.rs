//! Reading whole files: the forms there are, each with those whose keys may be written into it by mistake.

use crate::aqm_config::AqmConfig;
use crate::document::Document;
use crate::embedded::Embedded;
use crate::errors::Errors;
use crate::experiment::{Scenario, points};
use crate::library::Library;
use crate::policy_config::PolicyConfig;
use crate::problems::{Form, Problems};
use crate::run_config::RunConfig;
use crate::schema::{Here, Section, tables_of};
use crate::steer_config::SteerConfig;
use crate::upf_config::UpfConfig;

/// Where keys belong that are unknown in a scenario.
const IN_SCENARIO: &[Form] =
    &[("the file", tables_of::<Scenario>), ("a configuration of `weir run`", tables_of::<RunConfig>)];

/// Where keys belong that are unknown in a configuration of `weir run`.
const IN_RUN_CONFIG: &[Form] = &[("the file", tables_of::<RunConfig>), ("a scenario", tables_of::<Scenario>)];

/// Where keys belong that are unknown in a configuration of `weir upf`.
const IN_UPF_CONFIG: &[Form] =
    &[("the file", tables_of::<UpfConfig>), ("a configuration of `weir run`", tables_of::<RunConfig>)];

/// Where keys belong that are unknown in a queue of a program.
const IN_EMBEDDED: &[Form] =
    &[("the text", tables_of::<Embedded>), ("a configuration of `weir run`", tables_of::<RunConfig>)];

/// Where keys belong that are unknown in a configuration of `weir steer`.
const IN_STEER_CONFIG: &[Form] =
    &[("the file", tables_of::<SteerConfig>), ("a configuration of `weir run`", tables_of::<RunConfig>)];

impl Document {
    /// Checks the document as a scenario.
    pub fn scenario(&self) -> Result<Scenario, Errors> {
        let mut p = Problems::knowing(&self.file, IN_SCENARIO);
        p.library = Library::of(self.folder.clone());
        self.traces.iter().for_each(|(path, trace)| p.library.bring(path, trace.clone()));
        let here = Here { table: &self.root, path: String::new() };
        let mut scenario = Scenario::read(&here, &mut p);
        if let Some(scenario) = scenario.as_mut().filter(|_| p.is_empty()) {
            scenario.sweep.points = points(self, &mut p);
        }
        p.finish(scenario)
    }

    /// Checks the document as a configuration of `weir run`.
    pub fn run_config(&self) -> Result<RunConfig, Errors> {
        RunConfig::read_file(self, IN_RUN_CONFIG)
    }

    /// Checks the document as a configuration of `weir upf`.
    pub fn upf_config(&self) -> Result<UpfConfig, Errors> {
        UpfConfig::read_file(self, IN_UPF_CONFIG)
    }

    /// Checks the document as a queue of a program that embeds Weir.
    pub fn embedded(&self) -> Result<Embedded, Errors> {
        Embedded::read_file(self, IN_EMBEDDED)
    }

    /// Checks the document as a configuration of `weir steer`.
    pub fn steer_config(&self) -> Result<SteerConfig, Errors> {
        SteerConfig::read_file(self, IN_STEER_CONFIG)
    }
}

impl Scenario {
    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Scenario, Errors> {
        Document::load(path)?.scenario()
    }

    /// Reads a text; `file_name` is the name in messages.
    pub fn parse(file_name: &str, text: &str) -> Result<Scenario, Errors> {
        Document::parse(file_name, text)?.scenario()
    }
}

impl RunConfig {
    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<RunConfig, Errors> {
        Document::load(path)?.run_config()
    }

    /// Reads a text; `file_name` is the name in messages.
    pub fn parse(file_name: &str, text: &str) -> Result<RunConfig, Errors> {
        Document::parse(file_name, text)?.run_config()
    }
}

impl UpfConfig {
    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<UpfConfig, Errors> {
        Document::load(path)?.upf_config()
    }

    /// Reads a text; `file_name` is the name in messages.
    pub fn parse(file_name: &str, text: &str) -> Result<UpfConfig, Errors> {
        Document::parse(file_name, text)?.upf_config()
    }
}

impl Embedded {
    /// Reads a text; `name` is what messages call it.
    pub fn parse(name: &str, text: &str) -> Result<Embedded, Errors> {
        Document::parse(name, text)?.embedded()
    }
}

impl AqmConfig {
    /// Reads a text with the keys of an `aqm` table alone; `name` is what messages call it.
    pub fn parse(name: &str, text: &str) -> Result<AqmConfig, Errors> {
        AqmConfig::read_file(&Document::parse(name, text)?, &[])
    }
}

impl PolicyConfig {
    /// Reads a text with the keys of a `policy` table alone; `name` is what messages call it.
    pub fn parse(name: &str, text: &str) -> Result<PolicyConfig, Errors> {
        PolicyConfig::read_file(&Document::parse(name, text)?, &[])
    }
}
