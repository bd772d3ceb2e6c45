/** Requests of a destination that takes a VM, and the answers of its source; the manifest is apart. */
import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { closed } from '../../lib/schema-check.ts'
import { monitorNames, SAVE_FORMS } from './manifest.ts'
import { stageSchema } from './migration.ts'
import { ARRIVAL_PATTERN, SESSION_PATTERN, timeSchema } from './values.ts'
import { computeMembers } from './vm.ts'
import type { Static } from 'typebox'

export const arrivalSchema = Type.String({
  pattern: ARRIVAL_PATTERN,
  description:
    'Names one attempt to take the VM. The destination chooses it at random, keeps it, and names it in each request.',
  examples: ['5e2f8c31-77d0a1b4'],
})

const roundNumberSchema = Type.Integer({
  minimum: 1,
  maximum: limits.movedCountMax,
  description: 'From 1.',
  examples: [2],
})

const bytesSchema = (description: string) =>
  Type.Integer({ minimum: 0, maximum: limits.movedCountMax, description, examples: [1_048_576] })

export const fromSchema = Type.Optional(
  bytesSchema('0, or the end of a frame after which an earlier stream was cut.'),
)

export const takeRoundSchema = Type.Object(
  { arrival: arrivalSchema, number: roundNumberSchema },
  { ...closed, examples: [{ arrival: '5e2f8c31-77d0a1b4', number: 2 }] },
)

export const roundSchema = Type.Object(
  {
    number: roundNumberSchema,
    size_bytes: bytesSchema('The size of the disk.'),
    changed_bytes: bytesSchema('Bytes of data in the round; in round 1, all data of the disk.'),
  },
  {
    description: 'A round of the disk.',
    examples: [{ number: 2, size_bytes: 2_147_483_648, changed_bytes: 1_048_576 }],
  },
)

/** A request that names nothing but its destination: the handover, and the end of an attempt. */
export const arrivalOnlySchema = Type.Object(
  { arrival: arrivalSchema },
  { ...closed, examples: [{ arrival: '5e2f8c31-77d0a1b4' }] },
)

const monitorSchema = Type.Object({
  ...monitorNames,
  form: Type.Enum(SAVE_FORMS, { type: 'string' }),
})

const movedMemorySchema = Type.Object(
  {
    length_bytes: bytesSchema('Of the file, with its holes.'),
    saved_at: timeSchema,
    monitor: monitorSchema,
    compute: Type.Object({
      cpu_millicores: computeMembers.cpu_millicores,
      memory_mib: computeMembers.memory_mib,
    }),
  },
  { description: 'The saved memory of the guest.' },
)

const exampleHandOver = {
  stage: 'handed_over',
  last_round: 4,
  memory: {
    length_bytes: 541_065_216,
    saved_at: '2030-01-01T12:00:00.000Z',
    monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'kvm', form: 'mapped' },
    compute: { cpu_millicores: 1500, memory_mib: 512 },
  },
}

export const handOverSchema = Type.Object(
  {
    stage: { ...stageSchema, description: 'While it is `handing_over`, ask again.' },
    last_round: Type.Optional({
      ...roundNumberSchema,
      description: 'The round of the disk of the saved guest. Present from `handed_over` on.',
    }),
    memory: Type.Optional(movedMemorySchema),
  },
  {
    description:
      'How far the handover is. Without `memory` the guest has none: it moves with its disk alone.',
    examples: [exampleHandOver],
  },
)

export const releaseSchema = Type.Object(
  { arrival: arrivalSchema, last_round: roundNumberSchema },
  { ...closed, examples: [{ arrival: '5e2f8c31-77d0a1b4', last_round: 4 }] },
)

export const moveStageSchema = Type.Object(
  { stage: stageSchema },
  { description: 'The stage of the migration after the request.', examples: [{ stage: 'released' }] },
)

/** A side of a window; the kernel keeps 16 bits of it (struct winsize, ioctl_tty(2)). */
const windowSide = Type.Integer({ minimum: 1, maximum: 65_535 })

export const movedConsoleSchema = Type.Object(
  {
    session: Type.String({ pattern: SESSION_PATTERN }),
    end: Type.Integer({
      minimum: 0,
      maximum: limits.movedCountMax,
      description: 'Offset of the end of the output in its session.',
    }),
    window: Type.Object({ columns: windowSide, rows: windowSide }),
    output: Type.String({
      description: `The newest output in Base64, at most ${limits.consoleHistoryBytes} bytes of it.`,
    }),
  },
  {
    description: 'The console of the VM, which continues at the destination.',
    examples: [
      { session: '0123456789abcdef', end: 4096, window: { columns: 80, rows: 24 }, output: 'bG9naW46IA==' },
    ],
  },
)

const heldPacketSchema = Type.Object({
  number: Type.Integer({
    minimum: 1,
    maximum: limits.movedCountMax,
    description: 'From 1, since the frames are held.',
  }),
  gso_size: Type.Integer({
    minimum: 0,
    maximum: 65_535,
    description: 'Bytes of a segment, of a frame that has several; 0 of any other.',
  }),
  age_ms: Type.Integer({
    minimum: 0,
    maximum: limits.heldPacketAgeMsMax,
    description: 'Since it came to the source.',
  }),
  counts: Type.Boolean({ description: 'Whether a sleeping guest wakes for it.' }),
  frame: Type.String({ description: 'The Ethernet frame in Base64.' }),
})

export const heldPacketsSchema = Type.Object(
  { packets: Type.Array(heldPacketSchema, { maxItems: limits.heldFramesMax }) },
  {
    description: 'Frames that came for the guest while it is down for the handover, in their order.',
    examples: [{ packets: [{ number: 1, gso_size: 0, age_ms: 12, counts: true, frame: '/////w==' }] }],
  },
)

export type RoundWire = Static<typeof roundSchema>
export type HandOverWire = Static<typeof handOverSchema>
export type MovedMemoryWire = Static<typeof movedMemorySchema>
export type MovedConsoleWire = Static<typeof movedConsoleSchema>
export type HeldPacketsWire = Static<typeof heldPacketsSchema>
