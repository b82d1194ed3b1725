//! The client against a scripted HTTP server.

#[cfg(test)]
mod hold;
#[cfg(test)]
mod server;
#[cfg(test)]
mod transport;
