//! Encodes and decodes the checkpoint of a hash keyspace in the manifest: its options and its structure
//! (`docs/format/hash.md`, "Root").

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::{
    HashOptions,
    structure::{
        Delta, FileRef, HashManifest, MAX_DELTAS, MAX_PARTITION_BITS, MAX_SEGMENTS, Partition,
        codec::{address, index_bits, part, push_part, push_segment, segment},
    },
};

/// The version of the root's format. The version before had no options.
const FORM: u8 = 2;

/// Encodes options and structure.
pub fn encode(options: HashOptions, manifest: &HashManifest) -> Vec<u8> {
    let HashManifest { index_bits, begin, durable, segments, deltas, partitions } = manifest;
    let mut w = Writer::new();
    options.encode(w.u8(FORM));
    w.u8(*index_bits).u64(begin.get()).u64(durable.get());
    w.varint(segments.len() as u64);
    segments.iter().for_each(|segment| push_segment(&mut w, *segment));
    w.varint(deltas.len() as u64);
    for Delta { file, until } in deltas {
        FileRef::encode(Some(*file), &mut w);
        w.u64(until.get());
    }
    w.varint(partitions.len() as u64);
    for Partition { part, merged_until } in partitions {
        push_part(&mut w, *part);
        w.u64(merged_until.get());
    }
    w.finish()
}

/// Reads what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<(HashOptions, HashManifest), Malformed> {
    let mut r = Reader::new(bytes);
    let options = if r.version(FORM)? == FORM { HashOptions::decode(&mut r)? } else { HashOptions::default() };
    let manifest = HashManifest {
        index_bits: index_bits(&mut r)?,
        begin: address(&mut r)?,
        durable: address(&mut r)?,
        segments: r.list(MAX_SEGMENTS, segment)?,
        deltas: r.list(MAX_DELTAS, delta)?,
        partitions: r.list(1 << MAX_PARTITION_BITS, partition)?,
    };
    let end = r.position();
    r.finish()?;
    manifest.check().map_err(|what| Malformed::new(end, what))?;
    Ok((options, manifest))
}

fn delta(r: &mut Reader<'_>) -> Result<Delta, Malformed> {
    Ok(Delta { file: FileRef::decode_some(r)?, until: address(r)? })
}

fn partition(r: &mut Reader<'_>) -> Result<Partition, Malformed> {
    Ok(Partition { part: part(r)?, merged_until: address(r)? })
}
