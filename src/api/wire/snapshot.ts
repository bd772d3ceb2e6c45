import { Type } from 'typebox'
import { nextPageMembers, timeSchema } from './values.ts'
import { limits } from '../../config/limits.ts'
import { exampleSnapshot } from './examples.ts'
import { sha256Schema, vmIdSchema } from './vm.ts'
import type { Static } from 'typebox'
import type { Consistency, SnapshotStatus } from '../../core/snapshots/record.ts'
import type { SnapshotPhase } from '../../core/snapshots/work.ts'

export const SNAPSHOT_STATUSES = [
  'pending',
  'uploading',
  'completed',
  'failed',
] as const satisfies readonly SnapshotStatus[]

const PHASES = [
  'waiting',
  'capturing',
  'packing',
  'sending',
  'awaiting_completion',
  'completing',
  'completed',
  'failed',
] as const satisfies readonly SnapshotPhase[]

const CONSISTENCIES = ['file_system', 'crash'] as const satisfies readonly Consistency[]

const mib = (description: string, example: number) =>
  Type.Integer({ minimum: 0, description: `MiB. ${description}`, examples: [example] })
const count = (description: string) => Type.Integer({ minimum: 0, description })

export const snapshotIdSchema = { ...vmIdSchema, examples: ['nightly-1'] }

const statusSchema = Type.Enum(SNAPSHOT_STATUSES, {
  type: 'string',
  description:
    '`pending`: the disk is not captured yet, so later writes of the guest are still included. `uploading`: it is captured, and ' +
    'is compressed and sent, or waits for URLs. `completed`: the object is in the store. `failed`: `error` says why.',
})

const progressSchema = Type.Object(
  {
    phase: Type.Enum(PHASES, {
      type: 'string',
      description:
        '`waiting`: the disk cannot be captured yet. `capturing`: the guest is paused for a moment, or ' +
        'will be again. `packing`: parts are compressed, and sent as they are made. `sending`: all parts are compressed. ' +
        '`awaiting_completion`: the store has every part, and there is no `complete_url`. `completing`: the store puts ' +
        'them together.',
    }),
    done_mib: mib('MiB of the disk that the store has, counted by whole parts.', 310),
    total_mib: Type.Optional(mib('Length of the disk; absent until it is captured.', 2048)),
    percent: Type.Integer({
      minimum: 0,
      maximum: 100,
      description: 'Percent of the disk that the store has. 100 does not mean completed: `status` says that.',
    }),
  },
  { description: 'Progress of the snapshot.' },
)

const lackingSchema = Type.Object(
  {
    parts: Type.Array(Type.Integer({ minimum: 1, maximum: limits.partsMax }), {
      maxItems: limits.lackingPartsShown,
      description: `Part numbers that could be sent now; the first ${limits.lackingPartsShown} of them.`,
    }),
    complete: Type.Boolean({ description: 'Every part is sent, and a `complete_url` is missing.' }),
  },
  {
    description:
      'The parts or requests that wait for a URL, because it is missing or the store no longer accepts it. Absent if none waits.',
  },
)

const partsSchema = Type.Object(
  {
    part_size_mib: mib('Size of each part but the last, which is shorter.', 64),
    packed: count('Number of compressed parts. The final number is known only when `sha256` is present.'),
    sent: count('Number of parts that the store has. They are never sent again.'),
  },
  { description: 'Parts of the multipart upload.' },
)

const faultSchema = Type.Object(
  {
    code: Type.String({ description: 'A fault code of /docs/errors.', examples: ['upload_busy'] }),
    since: timeSchema,
    attempt: Type.Integer({ minimum: 1 }),
    next_attempt_at: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'Absent if it waits for the controller, or has failed.',
        examples: ['2030-01-01T12:00:00.000Z'],
      }),
    ),
  },
  { description: '`error` in parts.' },
)

export const snapshotSchema = Type.Object(
  {
    id: snapshotIdSchema,
    vm_id: vmIdSchema,
    status: statusSchema,
    progress: progressSchema,
    needs_urls: Type.Boolean({
      description:
        'The snapshot waits, or soon will, for URLs: see `lacking_urls`. For a `failed` one, see `resumable`.',
    }),
    lacking_urls: Type.Optional(lackingSchema),
    resumable: Type.Optional(
      Type.Boolean({
        description: 'Only if it `failed`: fresh URLs let it continue where it stopped.',
      }),
    ),
    parts: partsSchema,
    size_mib: Type.Optional(mib('Length of the disk as captured, rounded up.', 2048)),
    stored_size_mib: Type.Optional(
      mib('Length of the object, rounded up; present once the whole disk is compressed.', 412),
    ),
    staged_mib: mib(
      'Compressed parts on this host, rounded up. They stay after they are sent and after completion: until ' +
        '`DELETE`, until there was no activity for the configured time, or until another snapshot needs the room. The host then removes ' +
        'parts of completed snapshots first, the oldest before the others, and then sent parts of the others. ' +
        '0: this host has none of its parts any longer.',
      412,
    ),
    sha256: Type.Optional({
      ...sha256Schema,
      description:
        'Digest of the whole captured disk, uncompressed. It is the `sha256` for creating a VM from the object. Present once the whole disk is compressed.',
    }),
    consistency: Type.Optional(
      Type.Enum(CONSISTENCIES, {
        type: 'string',
        description:
          '`file_system`: an agent in the guest flushed and froze its file systems. `crash`: no agent did, or the guest did not run; ' +
          'the disk is as after a loss of power. A file system with a journal repairs itself when it is mounted.',
      }),
    ),
    captured_at: Type.Optional({
      ...timeSchema,
      description: 'When the disk was captured. The snapshot has no later writes.',
    }),
    paused_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Milliseconds for which the guest was paused; 0 if it did not run.',
        examples: [12],
      }),
    ),
    waiting_for: Type.Optional(
      Type.String({
        description:
          'What the compression of its next part waits for, while no part of it can be sent. It continues by itself. Absent if it does not wait so.',
        examples: ['room in staging'],
      }),
    ),
    error: Type.Optional(
      Type.String({
        description:
          'Why it has failed, or cannot continue for now. Absent without an error. Never contains any part of a URL.',
        examples: ['sending part 3: the store answered 503 SlowDown'],
      }),
    ),
    fault: Type.Optional(faultSchema),
    last_activity_at: Type.String({
      format: 'date-time',
      description:
        'Time of its last progress. Without activity for the configured time its staging is removed: a completed one stays completed, ' +
        'and a waiting one fails.',
      examples: ['2030-01-01T12:00:00.000Z'],
    }),
    revision: Type.Integer({ minimum: 1, description: 'Raised by every visible change; the ETag.' }),
    created_at: timeSchema,
    updated_at: timeSchema,
    operation_id: Type.Optional(
      Type.String({
        description:
          'Only in the answer to a mutation that changed something; log lines about the mutation carry it.',
        examples: ['op-01b21dd2138040a1b2c3d4e5'],
      }),
    ),
  },
  {
    description:
      'A snapshot of the disk of a VM, on its way to an object store or already there. Sent parts also stay on the host ' +
      '(`staged_mib`) while there is room.',
    examples: [exampleSnapshot],
  },
)

export const snapshotListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<SnapshotWire>({ $ref: 'Snapshot#' }), {
    description: 'Ordered by id.',
  }),
  ...nextPageMembers,
})

export type SnapshotWire = Static<typeof snapshotSchema>
export type SnapshotListWire = Static<typeof snapshotListSchema>
