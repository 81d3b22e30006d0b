//! Opening a memory with options.

use std::sync::Arc;

use memory_tool_core::{Actor, OpenError, Store};
use memory_tool_policies::{AuditLog, Detector, JsonLinesLog, Screen, SensitiveData};

use crate::builder::MemoryBuilder;
use crate::memory::Memory;
use crate::options::{MemoryOptions, OptionsError, Screening};
use crate::store_url::StoreUrl;

/// The name of the memory in the log.
const MEMORY_IN_LOG: &str = "memory";

impl MemoryOptions {
    /// Opens a memory with these options.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub async fn build(&self, memory: impl Into<MemoryBuilder>) -> Result<Memory, OptionsError> {
        Ok(self.configure(memory).await?.build().await?)
    }

    /// Sets these options of a memory, in place of earlier ones. Reads the keys, and opens the audit log and the
    /// mounted memories.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub async fn configure(&self, memory: impl Into<MemoryBuilder>) -> Result<MemoryBuilder, OptionsError> {
        self.check()?;
        let mut builder = memory.into();
        builder.layers.keys = self.key_ring().await?; // first: if a key is missing, nothing is created
        builder.layers.audit = self.open_audit_log().await?; // before the memory, so that nothing lacks a record
        builder.layers.screen = self.screening().map(|screen| Arc::new(screen) as Arc<dyn Screen>);
        builder.layers.observed_as = self.log.map(|_| MEMORY_IN_LOG.into());
        builder.options = self.clone();
        // Memories that must exist are opened first: if one is missing, nothing is created.
        for (point, url) in &self.read_only_mounts {
            let mounted = self.mounted(url, true, &builder).await?;
            builder = builder.mount_read_only(point.clone(), mounted);
        }
        for (point, url) in &self.mounts {
            let mounted = self.mounted(url, self.read_only || self.propose.is_some(), &builder).await?;
            builder = builder.mount(point.clone(), mounted);
        }
        Ok(builder)
    }

    /// Opens a mounted memory with the options that it has too.
    async fn mounted(
        &self,
        url: &StoreUrl,
        read_only: bool,
        over: &MemoryBuilder,
    ) -> Result<Arc<dyn Store>, OpenError> {
        let mut builder = MemoryBuilder::from(url.clone());
        builder.layers.keys.clone_from(&over.layers.keys);
        builder.options = Self {
            must_exist: self.must_exist,
            read_only,
            dry_run: self.dry_run,
            timeout: self.timeout,
            gc_every: self.gc_every,
            padding: self.padding,
            history: self.history,
            history_age: self.history_age,
            label: self.label.clone(),
            old_labels: self.old_labels.clone(),
            was_unlabeled: self.was_unlabeled,
            ..Self::default()
        };
        Ok(builder.build().await?.store())
    }

    async fn open_audit_log(&self) -> Result<Option<(Arc<dyn AuditLog>, Actor)>, OptionsError> {
        let (Some(file), Some(actor), false) = (&self.audit_log, &self.actor, self.dry_run) else { return Ok(None) };
        let log = JsonLinesLog::builder(file).sync(self.audit_sync);
        let log = self.audit_memory.iter().fold(log, |log, name| log.memory(name));
        let log = log.open().await.map_err(OptionsError::AuditLog)?;
        Ok(Some((Arc::new(log), actor.clone())))
    }

    fn screening(&self) -> Option<SensitiveData> {
        let also = self.screen_also.iter().copied();
        let builder = SensitiveData::builder();
        Some(match self.screen? {
            Screening::Refuse => builder.refuse(also).build(),
            Screening::Redact => {
                let by_default = Detector::CREDENTIALS.iter().copied().chain([Detector::PaymentCard]);
                builder.redact(by_default.chain(also)).build()
            }
        })
    }
}
