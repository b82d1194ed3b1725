//! The client, and the `lockctl` command, against a scripted HTTP server.

#[cfg(test)]
mod hold;
#[cfg(test)]
mod lockctl;
#[cfg(test)]
mod lockctl_run;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod transport;
