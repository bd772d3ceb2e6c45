/**
 * Takes signals of systemd out of a connection before the D-Bus library decodes them.
 *
 * Over its own socket systemd sends every signal about every unit of the host, and cannot be asked for fewer. A
 * PropertiesChanged has dozens of properties, and to decode them takes long. Only its path and its interface count, and
 * they can be read from the bytes (D-Bus specification, "Message Format").
 */
import type { VmId } from '../../core/ids.ts'
import { parseUnitName } from '../../core/unit/unit-spec.ts'
import { MANAGER, PROPERTIES, PROPERTIES_CHANGED, UNIT, UNIT_PATH_PREFIX, unitOfPath } from './bus-names.ts'
import type { Readable } from 'node:stream'

/** Byte order, type, flags, version, length of the body, serial, and length of the fields that follow. */
const HEAD_BYTES = 16
const AT = { order: 0, type: 1, bodyBytes: 4, fieldsBytes: 12 } as const
const LITTLE_ENDIAN = 'l'.charCodeAt(0)
const SIGNAL = 4

/** Bytes before each string: its length. */
const LENGTH_BYTES = 4
/** Each string ends with a zero. */
const field = (text: string): Buffer => Buffer.from(`${text}\0`)
const OF_PROPERTIES = field(PROPERTIES)
const CHANGED = field(PROPERTIES_CHANGED)
/** Signals of the manager that are not listened to. */
const IGNORED = ['UnitNew', 'UnitRemoved'].map(field)

/** A received signal of systemd. Of PropertiesChanged of a unit the body may have only the interface. */
export type BusSignal = {
  readonly path: string
  readonly interface: string
  readonly member: string
  readonly body: readonly unknown[]
}

/** Returns whether systemd has loaded all its units again, after `systemctl daemon-reload`. */
export const isReload = ({ interface: from, member, body }: BusSignal): boolean =>
  from === MANAGER && member === 'Reloading' && body[0] === false

/** Returns the VM whose unit a signal is about, if the signal reports a state change or the end of a job. */
export function changedVm({ path, interface: from, member, body }: BusSignal): VmId | undefined {
  if (from === MANAGER && member === 'JobRemoved') return parseUnitName(String(body[2]))
  const isOfUnit = from === PROPERTIES && member === PROPERTIES_CHANGED && body[0] === UNIT
  const name = isOfUnit ? unitOfPath(path) : undefined
  return name === undefined ? undefined : parseUnitName(name)
}

/**
 * Returns a signal that needs no library: the change of a unit's properties, with the interface alone as its body;
 * `ignored` for one that is not listened to; undefined for any other message.
 *
 * @param head the first {@link HEAD_BYTES} of the message
 * @param rest all others
 */
export function earlySignal(head: Buffer, rest: Buffer): BusSignal | 'ignored' | undefined {
  if (head[AT.type] !== SIGNAL || head[AT.order] !== LITTLE_ENDIAN) return undefined
  const fields = rest.subarray(0, head.readUInt32LE(AT.fieldsBytes))
  if (IGNORED.some((member) => fields.includes(member))) return 'ignored'
  const pathAt = fields.indexOf(UNIT_PATH_PREFIX, 'latin1')
  if (pathAt < 0 || !fields.includes(CHANGED) || !fields.includes(OF_PROPERTIES)) return undefined
  const body = rest.subarray(aligned(fields.length))
  if (body.length < LENGTH_BYTES) return undefined
  return {
    path: fields.toString('latin1', pathAt, fields.indexOf(0, pathAt)),
    interface: PROPERTIES,
    member: PROPERTIES_CHANGED,
    body: [body.toString('latin1', LENGTH_BYTES, LENGTH_BYTES + body.readUInt32LE(0))],
  }
}

/**
 * Shows each message of a connection to `take` before the library reads it. The library does not see a message for
 * which `take` returns true. Call it after the handshake and before the library reads messages. The library must read
 * the head of a message, and then all the rest at once.
 */
export function takeEarly(stream: Readable, take: (head: Buffer, rest: Buffer) => boolean): void {
  const readAny = stream.read.bind(stream) as (bytes: number) => Buffer | null
  /** At the end of a stream a read returns less than it should. */
  const read = (bytes: number): Buffer | undefined => {
    const got = readAny(bytes)
    return got?.length === bytes ? got : undefined
  }
  let head: Buffer | undefined
  let rest: Buffer | undefined
  stream.read = (bytes) => {
    // Node calls it so to have more bytes fetched, and drops the result.
    if (bytes === 0) return readAny(0)
    if (rest !== undefined) {
      const given = rest
      rest = undefined
      return given
    }
    for (;;) {
      head ??= read(HEAD_BYTES)
      const all = head && read(bytesAfter(head))
      if (head === undefined || all === undefined) return null
      const given = head
      head = undefined
      if (take(given, all)) continue
      rest = all
      return given
    }
  }
}

function bytesAfter(head: Buffer): number {
  const numberAt = (at: number): number =>
    head[AT.order] === LITTLE_ENDIAN ? head.readUInt32LE(at) : head.readUInt32BE(at)
  return aligned(numberAt(AT.fieldsBytes)) + numberAt(AT.bodyBytes)
}

/** The body of a message begins at a multiple of 8 bytes. */
const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8
