import { Type } from 'typebox'
import { nextPageMembers } from './cursor.ts'
import { limits } from '../../config/limits.ts'
import { exampleSnapshot } from './snapshot-examples.ts'
import { timeSchema } from './time.ts'
import { sha256Schema, vmIdSchema } from './vm.ts'
import type { Static } from 'typebox'
import type { Consistency, SnapshotStatus } from '../../core/snapshot/record.ts'
import type { SnapshotPhase } from '../../core/snapshot/work.ts'

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

export const statusSchema = Type.Enum(SNAPSHOT_STATUSES, {
  type: 'string',
  description:
    '`pending`: the disk is not captured yet, and what the guest writes is still in it. `uploading`: it is captured, and ' +
    'compressed and sent, or waits for URLs. `completed`: the object is in the store. `failed`: `error` says why.',
})

const progressSchema = Type.Object(
  {
    phase: Type.Enum(PHASES, {
      type: 'string',
      description:
        '`waiting`: for a moment in which the disk can be captured. `capturing`: the guest stands still for a moment, or ' +
        'will again. `packing`: parts are compressed, and sent as they are made. `sending`: all is compressed. ' +
        '`awaiting_completion`: the store has every part, and there is no `complete_url`. `completing`: the store puts ' +
        'them together.',
    }),
    done_mib: mib('Of the disk, what the store has. Counted part by part.', 310),
    total_mib: Type.Optional(mib('Length of the disk; absent until it is captured.', 2048)),
    percent: Type.Integer({
      minimum: 0,
      maximum: 100,
      description: 'Of the disk, what the store has. 100 does not mean completed: `status` says that.',
    }),
  },
  { description: 'How far it has come.' },
)

const lackingSchema = Type.Object(
  {
    parts: Type.Array(Type.Integer({ minimum: 1, maximum: limits.partsMax }), {
      maxItems: limits.lackingPartsTold,
      description: `Numbers of parts that could be sent; the first ${limits.lackingPartsTold} of them.`,
    }),
    complete: Type.Boolean({ description: 'Every part is sent, and a `complete_url` is missing.' }),
  },
  {
    description:
      'For what there is no URL, or none that the store still takes. Absent where nothing waits for one.',
  },
)

const partsSchema = Type.Object(
  {
    size_mib: mib('Of each part but the last, which is shorter.', 64),
    packed: count('Parts that are compressed. How many it will be is known only when `sha256` is there.'),
    sent: count('Parts that the store has. They are never sent again.'),
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
        description: 'Absent where it waits for the controller, or has failed.',
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
        'It stands still, or soon will, until it is handed URLs: see `lacking_urls`. A `failed` one says so by `resumable`.',
    }),
    lacking_urls: Type.Optional(lackingSchema),
    resumable: Type.Optional(
      Type.Boolean({
        description: 'Only of a `failed` one: fresh URLs let it go on from where it was.',
      }),
    ),
    parts: partsSchema,
    size_mib: Type.Optional(mib('Length of the disk as captured, rounded up.', 2048)),
    stored_size_mib: Type.Optional(
      mib('Length of the object, rounded up; there once all is compressed.', 412),
    ),
    staged_mib: mib(
      'Compressed parts that lie on this host, rounded up. They stay when they are sent and when it is completed: until ' +
        '`DELETE`, until nothing moved for the configured time, or until another snapshot needs the room. That takes ' +
        'completed ones first, those that were completed first before others, and then what was sent of the others. ' +
        '0: nothing of it is left here.',
      412,
    ),
    sha256: Type.Optional({
      ...sha256Schema,
      description:
        'Of the whole disk as captured, uncompressed: the `sha256` to create a VM from the object with. There once all is compressed.',
    }),
    consistency: Type.Optional(
      Type.Enum(CONSISTENCIES, {
        type: 'string',
        description:
          '`file_system`: an agent in the guest flushed and froze its file systems. `crash`: none did, or the guest did not run; ' +
          'the disk is as a loss of power would have left it. A file system with a journal repairs itself when it is mounted.',
      }),
    ),
    captured_at: Type.Optional({
      ...timeSchema,
      description: 'When the disk was captured. Nothing written later is in the snapshot.',
    }),
    paused_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Milliseconds for which the guest stood still; 0 where it did not run.',
        examples: [12],
      }),
    ),
    error: Type.Optional(
      Type.String({
        description:
          'Why it has failed, or stands still for now. Absent when all is well. Never with any part of a URL.',
        examples: ['sending part 3: the store answered 503 SlowDown'],
      }),
    ),
    fault: Type.Optional(faultSchema),
    last_activity_at: Type.String({
      format: 'date-time',
      description:
        'When it last came further. Without activity for the configured time its staging goes: a completed one stays completed, ' +
        'and one that waits fails.',
      examples: ['2030-01-01T12:00:00.000Z'],
    }),
    revision: Type.Integer({ minimum: 1, description: 'Raised by every visible change; the ETag.' }),
    created_at: timeSchema,
    updated_at: timeSchema,
    operation_id: Type.Optional(
      Type.String({
        description:
          'Only in the answer to a mutation that changed something; its lines of the log carry it.',
        examples: ['op-01b21dd2138040a1b2c3d4e5'],
      }),
    ),
  },
  {
    description:
      'A snapshot of the disk of a VM, on its way to an object store or there. What was sent of it stays on the host as well ' +
      '(`staged_mib`), as far as there is room.',
    examples: [exampleSnapshot],
  },
)

export const snapshotListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<SnapshotWire>({ $ref: 'Snapshot#' }), {
    description: 'In the order of their ids.',
  }),
  ...nextPageMembers,
})

export type SnapshotWire = Static<typeof snapshotSchema>
export type SnapshotListWire = Static<typeof snapshotListSchema>
