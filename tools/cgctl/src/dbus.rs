// SPDX-License-Identifier: GPL-2.0-only
//! systemd, over D-Bus.
//!
//! Always over the bus, by root, too: on systemd's private socket, which systemctl uses, messages have senders that are
//! no names by D-Bus's own rules, and zbus does not take them.

use zbus::blocking::{Connection, MessageIterator};
use zbus::zvariant::{OwnedObjectPath, Value};

use crate::error::{Error, Kind, Result};
use crate::finder::Rules;

const NAME: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PATH: &str = "/org/freedesktop/systemd1";
/// What gives a unit a weight, in one of two units of measure, and at all times or while the machine starts. For any of
/// them systemd has the cpu controller; any CPUWeight= takes the effect from all shares.
const WEIGHTS: [&str; 4] = ["CPUWeight", "StartupCPUWeight", "CPUShares", "StartupCPUShares"];
/// Each of them for a unit that has none (CGROUP_WEIGHT_INVALID and CGROUP_CPU_SHARES_INVALID in systemd).
const NO_WEIGHT: u64 = u64::MAX;
/// And the one that a unit without any has in effect.
const DEFAULT_WEIGHT: u64 = 100;

pub struct Systemd {
    connection: Connection,
}

/// What systemd tells on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A daemon-reload begins (true) or is done (false).
    Reloading(bool),
    /// A job of a unit came to its end: started, stopped, reloaded. The job, the unit, and the result.
    JobRemoved(String, String, String),
}

/// What D-Bus says, without its names for things.
fn explain(what: &str, error: zbus::Error) -> Error {
    match error {
        zbus::Error::MethodError(name, text, _) => {
            let kind = match name.as_str() {
                "org.freedesktop.systemd1.NoSuchUnit" => Kind::NotFound,
                "org.freedesktop.DBus.Error.AccessDenied" | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
                    => Kind::Permission,
                "org.freedesktop.DBus.Error.UnknownProperty" => Kind::Unsupported,
                _ => Kind::Failed,
            };
            Error::new(kind, format!("{what}: {}", text.unwrap_or_else(|| name.to_string())))
        }
        error => Error::failed(format!("{what}: {error}")),
    }
}

fn parse_signal(message: &zbus::Message) -> Option<Signal> {
    let header = message.header();
    if header.interface().map(|name| name.as_str()) != Some(MANAGER) {
        return None;
    }
    match header.member().map(|name| name.as_str())? {
        "Reloading" => message.body().deserialize::<bool>().ok().map(Signal::Reloading),
        "JobRemoved" => message.body().deserialize::<(u32, OwnedObjectPath, String, String)>().ok()
            .map(|(_, job, unit, result)| Signal::JobRemoved(job.to_string(), unit, result)),
        _ => None,
    }
}

impl Systemd {
    pub fn connect(user: bool) -> Result<Systemd> {
        let connection = if user { Connection::session() } else { Connection::system() };
        let connection = connection.map_err(|e| explain("systemd cannot be reached over D-Bus", e))?;
        Ok(Systemd { connection })
    }

    fn call<B, R>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<R>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
        R: serde::de::DeserializeOwned + zbus::zvariant::Type,
    {
        let reply = self.connection.call_method(Some(NAME), path, Some(interface), method, body)
            .map_err(|e| explain(method, e))?;
        reply.body().deserialize().map_err(|e| explain(method, e))
    }

    fn manager<B, R>(&self, method: &str, body: &B) -> Result<R>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
        R: serde::de::DeserializeOwned + zbus::zvariant::Type,
    {
        self.call(PATH, MANAGER, method, body)
    }

    /// Have signals delivered from now on, by a thread of their own, until `deliver` wants no more; None is the end of
    /// the connection. Nobody who waits for a reply may have to take signals meanwhile: the connection queues only a
    /// few, and stands still when they are not taken.
    pub fn subscribe(&self, mut deliver: impl FnMut(Option<Signal>) -> bool + Send + 'static) -> Result<()> {
        let messages = MessageIterator::from(&self.connection);
        std::thread::Builder::new().name("dbus".into()).stack_size(256 << 10).spawn(move || {
            let signals = messages.map_while(std::result::Result::ok).filter_map(|message| parse_signal(&message));
            for signal in signals {
                if !deliver(Some(signal)) {
                    return;
                }
            }
            deliver(None);
        }).map_err(|e| Error::io("a thread", e))?;
        // Of the others there is one for each unit that comes or goes.
        for member in ["Reloading", "JobRemoved"] {
            let rule = format!("type='signal',sender='{NAME}',interface='{MANAGER}',member='{member}'");
            self.connection.call_method(Some("org.freedesktop.DBus"), "/org/freedesktop/DBus", Some("org.freedesktop.DBus"),
                                        "AddMatch", &rule).map_err(|e| explain("AddMatch", e))?;
        }
        self.manager("Subscribe", &())
    }

    fn property<R>(&self, path: &str, interface: &str, name: &str) -> Result<R>
    where
        R: TryFrom<zbus::zvariant::OwnedValue>,
    {
        let value: zbus::zvariant::OwnedValue =
            self.call(path, "org.freedesktop.DBus.Properties", "Get", &(interface, name))?;
        R::try_from(value).map_err(|_| Error::failed(format!("{name}: not of the type that systemd documents")))
    }

    pub fn version(&self) -> Result<String> {
        self.property(PATH, MANAGER, "Version")
    }

    /// Where this manager looks for unit files.
    fn unit_path(&self) -> Result<Vec<String>> {
        self.property(PATH, MANAGER, "UnitPath")
    }

    /// By which rules this manager reads unit files.
    pub fn rules(&self) -> Result<Rules> {
        Ok(Rules::of(&self.version()?, self.unit_path()?))
    }

    pub fn reload(&self) -> Result<()> {
        self.manager("Reload", &())
    }

    /// Where a unit is on the bus; None is one that systemd does not know.
    fn object(&self, unit: &str) -> Result<Option<OwnedObjectPath>> {
        match self.manager("GetUnit", &unit) {
            Err(error) if error.kind == Kind::NotFound => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Is it running, or on its way to or from there?
    fn is_active(&self, unit: &str) -> Result<bool> {
        let Some(path) = self.object(unit)? else { return Ok(false) };
        let state: String = self.property(path.as_str(), "org.freedesktop.systemd1.Unit", "ActiveState")?;
        Ok(!matches!(state.as_str(), "inactive" | "failed"))
    }

    /// Make systemd keep the cpu controller enabled for a unit, by giving it, until the next boot, the weight that it
    /// has anyway. Without that, the next change beside the unit may take the controller away again. A unit that has
    /// ended is left alone: systemd would make its group again, empty, and leave it there. So is one that has got a
    /// weight of its own meanwhile, for which systemd keeps the controller. Returns whether it was given one.
    pub fn keep_cpu(&self, unit: &str) -> Result<bool> {
        let needed = self.is_active(unit)? && self.lacks_weight(unit)?;
        if needed {
            self.set_weight(unit, DEFAULT_WEIGHT)?;
        }
        Ok(needed)
    }

    /// Whether a unit that systemd knows has no weight of its own, of any form and from wherever.
    pub fn lacks_weight(&self, unit: &str) -> Result<bool> {
        let (Some(path), Some(section)) = (self.object(unit)?, crate::unit::section(unit)) else { return Ok(false) };
        let interface = format!("org.freedesktop.systemd1.{section}");
        for name in WEIGHTS {
            match self.property::<u64>(path.as_str(), &interface, name) {
                Ok(NO_WEIGHT) => {}
                Ok(_) => return Ok(false),
                // Later versions have no shares.
                Err(error) if error.kind == Kind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Take back what keep_cpu() did to a unit that had no weight of its own.
    pub fn forget_weight(&self, unit: &str) -> Result<()> {
        self.set_weight(unit, NO_WEIGHT)
    }

    /// Until the next boot.
    fn set_weight(&self, unit: &str, weight: u64) -> Result<()> {
        self.manager("SetUnitProperties", &(unit, true, vec![("CPUWeight", Value::from(weight))]))
    }

    /// Put a process into a new scope and wait until it is there.
    pub fn start_scope(&self, name: &str, slice: Option<&str>, description: &str, pid: u32) -> Result<()> {
        let (sender, signals) = std::sync::mpsc::channel();
        self.subscribe(move |signal| signal.is_some_and(|signal| sender.send(signal).is_ok()))?;
        let mut properties = vec![
            ("PIDs", Value::from(vec![pid])),
            ("Description", Value::from(description)),
            // Enables the controller.
            ("CPUWeight", Value::from(DEFAULT_WEIGHT)),
            // Nothing is left of it, even if it fails.
            ("CollectMode", Value::from("inactive-or-failed")),
        ];
        if let Some(slice) = slice {
            properties.push(("Slice", Value::from(slice)));
        }
        let none: Vec<(&str, Vec<(&str, Value)>)> = Vec::new();
        let job: OwnedObjectPath = self.manager("StartTransientUnit", &(name, "fail", properties, none))?;
        for signal in signals {
            match signal {
                Signal::JobRemoved(done, _, result) if done == job.as_str() => {
                    return if result == "done" { Ok(()) } else {
                        Err(Error::failed(format!("systemd did not start {name}: {result}")))
                    };
                }
                _ => {}
            }
        }
        Err(Error::failed("systemd closed the connection"))
    }
}
