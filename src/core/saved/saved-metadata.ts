import { Type } from 'typebox'
import type { Static } from 'typebox'
import { given } from '../../lib/given.ts'
import { isObject, parsedJson } from '../../lib/parsed-values.ts'
import { err, ok } from '../../lib/result.ts'
import { checkerFor, closed } from '../../lib/schema-check.ts'
import type { Result } from '../../lib/result.ts'
import type { VmId } from '../ids.ts'
import type { SaveTerms, UnusableState } from '../world/saved-state.ts'

/** Raised with every change that an older daemon must not read past. */
const FORMAT = 3
/** States without a format of their monitor are written as before, so that an older daemon reads them. */
const FORMAT_WITHOUT_MONITORS_FORMAT = 2

/** Identifies a disk among all others, and distinguishes it from itself after one more write; see stat(2). */
export type DiskIdentity = {
  readonly inode: bigint
  readonly sizeBytes: number
  /** Time of its last write, in nanoseconds since 1970. */
  readonly modifiedNs: bigint
}

/** Everything that is known of a saved guest besides its memory. */
export type SavedMetadata = SaveTerms & {
  readonly vmId: VmId
  readonly memory: {
    /** Length of the file, including its holes. */
    readonly lengthBytes: number
    /** Bytes that it takes in the pool. */
    readonly storedBytes: number
    /** Checksum of the whole file, with its holes read as zeros. */
    readonly crc32: number
  }
  readonly disk: DiskIdentity
}

const bytes = Type.Integer({ minimum: 0 })
/** An integer that may exceed what a JSON number holds exactly. */
const bigInteger = Type.String({ pattern: '^[0-9]{1,20}$' })
const text = Type.String({ minLength: 1, maxLength: 256 })

const schema = Type.Object(
  {
    format: Type.Integer(),
    vm_id: text,
    saved_at_ms: Type.Integer({ minimum: 0 }),
    memory: Type.Object(
      {
        length_bytes: bytes,
        stored_bytes: bytes,
        crc32: Type.Integer({ minimum: 0, maximum: 0xffff_ffff }),
      },
      closed,
    ),
    disk: Type.Object({ inode: bigInteger, size_bytes: bytes, modified_ns: bigInteger }, closed),
    monitor: Type.Object(
      {
        program: text,
        version: text,
        accelerator: text,
        format: Type.Optional(text),
        memory_form: Type.Union([Type.Literal('mapped'), Type.Literal('stream'), Type.Literal('backing')]),
      },
      closed,
    ),
    compute: Type.Object(
      { cpu_millicores: Type.Integer({ minimum: 1 }), memory_mib: Type.Integer({ minimum: 1 }) },
      closed,
    ),
  },
  closed,
)
const complaintsAbout = checkerFor(schema, new Map([['^[0-9]{1,20}$', 'must be a whole number']]))

export function renderSavedMetadata({
  vmId,
  savedAtMs,
  memory,
  disk,
  monitor,
  compute,
}: SavedMetadata): string {
  const value: Static<typeof schema> = {
    format: monitor.format === undefined ? FORMAT_WITHOUT_MONITORS_FORMAT : FORMAT,
    vm_id: vmId,
    saved_at_ms: savedAtMs,
    memory: { length_bytes: memory.lengthBytes, stored_bytes: memory.storedBytes, crc32: memory.crc32 },
    disk: {
      inode: String(disk.inode),
      size_bytes: disk.sizeBytes,
      modified_ns: String(disk.modifiedNs),
    },
    monitor: {
      program: monitor.program,
      version: monitor.version,
      accelerator: monitor.accelerator,
      ...given({ format: monitor.format }),
      memory_form: monitor.form,
    },
    compute: { cpu_millicores: compute.cpuMillicores, memory_mib: compute.memoryMib },
  }
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** Parses what `renderSavedMetadata` wrote; otherwise returns why it is unusable. */
export function parseSavedMetadata(content: string): Result<SavedMetadata, UnusableState> {
  const value = lifted(parsedJson(content))
  const format = isObject(value) ? value['format'] : undefined
  if (typeof format === 'number' && Number.isInteger(format) && format > FORMAT) {
    return err(unusable('saved_state_too_new', `its metadata has format ${format}, and ${FORMAT} is known`))
  }
  const isKnown = format === FORMAT || format === FORMAT_WITHOUT_MONITORS_FORMAT
  const [complaint] = isKnown ? complaintsAbout(value) : [{ pointer: '', detail: 'is not whole' }]
  if (complaint !== undefined) {
    return err(
      corrupt(
        `its metadata${complaint.pointer === '' ? '' : ` at ${complaint.pointer}`} ${complaint.detail}`,
      ),
    )
  }
  const { vm_id, saved_at_ms, memory, disk, monitor, compute } = value as Static<typeof schema>
  return ok({
    vmId: vm_id as VmId,
    savedAtMs: saved_at_ms,
    memory: { lengthBytes: memory.length_bytes, storedBytes: memory.stored_bytes, crc32: memory.crc32 },
    disk: { inode: BigInt(disk.inode), sizeBytes: disk.size_bytes, modifiedNs: BigInt(disk.modified_ns) },
    monitor: {
      program: monitor.program,
      version: monitor.version,
      accelerator: monitor.accelerator,
      ...given({ format: monitor.format }),
      form: monitor.memory_form,
    },
    compute: { cpuMillicores: compute.cpu_millicores, memoryMib: compute.memory_mib },
  })
}

export const unusable = (code: UnusableState['code'], because: string): UnusableState => ({
  kind: 'unusable',
  code,
  because: `the saved state is not restored: ${because}`,
})

export const corrupt = (because: string): UnusableState => unusable('saved_state_corrupt', because)

/** Converts format 1 to format 2: before there was a choice, all memory was mapped. */
function lifted(value: unknown): unknown {
  const { format, monitor } = (value ?? {}) as { format?: unknown; monitor?: unknown }
  if (format !== 1 || typeof monitor !== 'object' || monitor === null) return value
  return { ...(value as object), format: 2, monitor: { memory_form: 'mapped', ...monitor } }
}
