//! The child's side: answers questions about a store until standard input ends.

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result, anyhow, bail};

use super::given::GivenStore;
use super::own::OwnStore;
use super::setup::Setup;
use super::store::Store;
use super::{BEHAVE, CHECK, CLEAR, COUNT, REMOVE};
use crate::dataset::Dataset;
use crate::store_client::StoreClient;
use crate::workload;

/// The command line of the child.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Needs {
    #[command(flatten)]
    setup: Setup,
    /// Names of the workloads whose objects a given server must hold; the embedded one holds all
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
}

/// Serves the data set until standard input ends.
pub(crate) fn serve(needs: &Needs) -> Result<()> {
    let data = Dataset::new(needs.setup.quick);
    let store: Box<dyn Store> = match &needs.setup.endpoint_url {
        None => Box::new(OwnStore::start(&needs.setup)?),
        Some(url) => {
            let chosen = workload::select(&workload::all(&data), &needs.workload);
            let chosen = chosen.map_err(|name| anyhow!("no workload {name:?}"))?;
            let sets = workload::files_read(&chosen);
            let client = StoreClient::connect(url, &needs.setup.bucket)?;
            Box::new(GivenStore::prepare(url, client, &sets)?)
        }
    };
    store.behave(needs.setup.conditions())?;
    let mut output = io::stdout().lock();
    writeln!(output, "{}", store.url())?;
    for line in io::stdin().lock().lines() {
        let answer = answer(&*store, &data, &line?);
        // One line, whatever went wrong.
        let answer = answer.unwrap_or_else(|error| format!("{error:#}").replace('\n', " "));
        writeln!(output, "{answer}")?;
    }
    Ok(())
}

/// The question itself where there is nothing to tell.
fn answer(store: &dyn Store, data: &Dataset, line: &str) -> Result<String> {
    let (question, argument) = line.split_once(' ').unwrap_or((line, ""));
    match question {
        CLEAR => store.clear(),
        COUNT => return Ok(serde_json::to_string(&store.requests())?),
        BEHAVE => store.behave(serde_json::from_str(argument)?)?,
        CHECK => {
            let seed: u64 = argument.parse()?;
            let written = data.written_sets();
            let files = written.iter().find(|files| files.seed(0) == seed);
            store.check(*files.context("there is no such set")?)?;
        }
        REMOVE => store.remove_written()?,
        other => bail!("unknown request {other:?}"),
    }
    Ok(question.to_owned())
}
