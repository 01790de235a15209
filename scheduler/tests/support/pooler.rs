//! A proxy that lends server connections per transaction, as connection poolers do: a client has
//! one only from its first message to the end of its transaction.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Server connections that are free, the last one used first.
type Free = Arc<Mutex<Vec<TcpStream>>>;

/// Listens on a port of the loopback for clients of the server on `server_port`; ends with the
/// runtime.
pub(crate) async fn start(server_port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let free = Free::default();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // A client that goes away in the middle ends its task, that is all.
            tokio::spawn(serve(client, server_port, free.clone()));
        }
    });
    port
}

async fn serve(mut client: TcpStream, server_port: u16, free: Free) -> std::io::Result<()> {
    let length = client.read_u32().await?;
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await?;
    // AuthenticationOk, and ReadyForQuery in no transaction.
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
    loop {
        let mut message = read(&mut client).await?;
        if message[0] == b'X' {
            return Ok(());
        }
        let idle = free.lock().expect("not poisoned").pop();
        let mut server = match idle {
            Some(server) => server,
            None => connect(server_port, &startup).await?,
        };
        loop {
            let kind = message[0];
            server.write_all(&message).await?;
            if matches!(kind, b'Q' | b'S') && answer(&mut server, &mut client).await? {
                break;
            }
            message = read(&mut client).await?;
        }
        free.lock().expect("not poisoned").push(server);
    }
}

/// Opens a server connection with a client's own startup message.
async fn connect(port: u16, startup: &[u8]) -> std::io::Result<TcpStream> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    server.write_u32(u32::try_from(startup.len()).expect("small") + 4).await?;
    server.write_all(startup).await?;
    while read(&mut server).await?[0] != b'Z' {}
    Ok(server)
}

/// Passes the server's answer on; returns whether the transaction is over with it.
async fn answer(server: &mut TcpStream, client: &mut TcpStream) -> std::io::Result<bool> {
    loop {
        let message = read(server).await?;
        client.write_all(&message).await?;
        if message[0] == b'Z' {
            return Ok(message[5] == b'I');
        }
    }
}

/// One message: its kind, its length, its body.
async fn read(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; 5];
    from.read_exact(&mut message).await?;
    let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]) as usize;
    message.resize(1 + length, 0);
    from.read_exact(&mut message[5..]).await?;
    Ok(message)
}
