//! Frames as bytes on their way out, as messages on their way in.

use std::marker::PhantomData;

use bytes::{BufMut as _, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic_prost::ProstCodec;

/// Sends bytes as they are and reads messages of the type `D`: what another release might say is no
/// message of this one.
pub struct FrameCodec<D>(PhantomData<fn() -> D>);

impl<D> Default for FrameCodec<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D: Message + Default + Send + 'static> Codec for FrameCodec<D> {
    type Encode = Bytes;
    type Decode = D;
    type Encoder = AsIs;
    type Decoder = <ProstCodec<D, D> as Codec>::Decoder;

    fn encoder(&mut self) -> AsIs {
        AsIs
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<D, D>::default().decoder()
    }
}

/// Writes bytes as they are.
pub struct AsIs;

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, frame: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(frame);
        Ok(())
    }
}
