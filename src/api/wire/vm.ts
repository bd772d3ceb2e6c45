import { Type } from 'typebox'
import { nextPageMembers } from './cursor.ts'
import { limits } from '../../config/limits.ts'
import { exampleVm } from './examples.ts'
import { SHA256_PATTERN, VM_ID_PATTERN } from '../../core/vm/ids.ts'
import { networkSchema } from './network.ts'
import { sleepMembers } from './sleep.ts'
import { timeSchema } from './time.ts'
import { LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN } from './words.ts'
import type { Static } from 'typebox'
import type { PlanWire } from './plan.ts'
import type { DesiredPower } from '../../core/vm/desired.ts'
import type { ObservedState } from '../../core/vm/record.ts'

const POWERS = ['running', 'stopped', 'paused'] as const satisfies readonly DesiredPower[]
export const OBSERVED_STATES = [
  'pending',
  'starting',
  'running',
  'pausing',
  'paused',
  'stopping',
  'stopped',
  'sleeping',
  'waking',
  'deleting',
  'failed',
] as const satisfies readonly ObservedState[]

export const vmIdSchema = Type.String({
  pattern: VM_ID_PATTERN,
  description: 'Chosen by the controller: 1 to 63 lower-case letters, digits and inner hyphens.',
  examples: ['web-1'],
})

export const powerSchema = Type.Enum(POWERS, {
  type: 'string',
  description:
    '`stopped` is always a hard stop and throws saved state away. A VM sleeps only while this is `running`.',
})

export const computeMembers = {
  cpu_millicores: Type.Integer({
    minimum: limits.cpuMillicoresMin,
    maximum: limits.cpuMillicoresMax,
    description: '1000 is one core. The guest sees one vCPU for each started 1000.',
    examples: [1500],
  }),
  memory_mib: Type.Integer({ minimum: limits.memoryMibMin, maximum: limits.memoryMibMax, examples: [512] }),
  sleep_after_idle_seconds: Type.Integer({
    minimum: 0,
    maximum: limits.sleepAfterIdleSecondsMax,
    description:
      'Seconds. Puts the VM to sleep after this long without unicast IPv4 or IPv6 from host to guest. 0 switches that ' +
      'off, and wakes it. What the guest does or sends does not count: choose longer than it ever takes to answer. ' +
      'Without network nothing could wake the VM, so only 0 is accepted.',
    examples: [0],
  }),
}

export const diskMembers = {
  size_mib: Type.Integer({
    minimum: limits.diskMibMin,
    maximum: limits.diskMibMax,
    description: 'At least the size of the root image. A disk never shrinks.',
    examples: [2048],
  }),
  iops_max: Type.Optional(
    Type.Integer({
      minimum: limits.diskIopsMin,
      maximum: limits.diskIopsMax,
      description:
        'Reads and writes a second, together. Not limited where absent. Takes effect on a running VM.',
      examples: [500],
    }),
  ),
  mib_per_second_max: Type.Optional(
    Type.Integer({
      minimum: limits.diskMibPerSecondMin,
      maximum: limits.diskMibPerSecondMax,
      description: 'Read and written, together. Not limited where absent. Takes effect on a running VM.',
      examples: [100],
    }),
  ),
}

export const metadataMembers = {
  labels: Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string', pattern: LABEL_VALUE_PATTERN },
    propertyNames: { type: 'string', pattern: LABEL_KEY_PATTERN },
    maxProperties: limits.labelsMax,
    description: 'For the controller to find its VMs by; see `?label=` of the list.',
    examples: [{ env: 'prod', 'example.net/owner': 'web' }],
  }),
  protected: Type.Boolean({ description: 'While true, a deletion is refused.' }),
}

export const sha256Schema = Type.String({
  pattern: SHA256_PATTERN,
  description: 'SHA-256 of the image, verified while it downloads.',
})
const generationSchema = Type.Integer({ minimum: 0 })

const desiredSchema = Type.Object(
  {
    power: powerSchema,
    compute: Type.Object(computeMembers),
    disk: Type.Object(diskMembers),
    image: Type.Object(
      {
        rootfs_sha256: sha256Schema,
        kernel_sha256: sha256Schema,
        initrd_sha256: Type.Optional(sha256Schema),
        kernel_arguments: Type.Optional(Type.String()),
      },
      { description: 'By digest. URLs are never returned.' },
    ),
    network: Type.Optional(networkSchema),
  },
  { description: 'What was asked for.' },
)

const faultSchema = Type.Object(
  {
    code: Type.String({ description: 'A fault code of /docs/errors.' }),
    step: Type.String({ description: 'The step that failed.', examples: ['network.ensure-tap'] }),
    generation: generationSchema,
    since: timeSchema,
    attempt: Type.Integer({ minimum: 1 }),
    next_attempt_at: timeSchema,
  },
  { description: '`error` in parts.' },
)

const observedSchema = Type.Object(
  {
    state: Type.Enum(OBSERVED_STATES, {
      type: 'string',
      description:
        '`running`: its monitor answers and its vCPUs run; whether the guest has booted, or ever will, is not looked at. ' +
        '`sleeping`: it was idle, its memory is saved in the pool, and no unit runs; traffic or a request wakes it. ' +
        '`waking`: it is on its way back from there, and packets for it are held.',
    }),
    state_since: timeSchema,
    waiting_for: Type.Optional(
      Type.String({
        description: 'What a transitional state waits for. Past its deadline `error` says so.',
        examples: ['the monitor to answer'],
      }),
    ),
    operation_id: Type.Optional(
      Type.String({ description: 'The mutation that is being applied; absent when the generations meet.' }),
    ),
    error: Type.Optional(
      Type.String({
        description: 'Why the state stands still: the step and its chain of causes. Absent when healthy.',
        examples: ['network.ensure-tap: making tap vmt2100000000: device or resource busy'],
      }),
    ),
    fault: Type.Optional(faultSchema),
    partial_faults: Type.Optional(
      Type.Array(
        Type.Object({
          code: Type.String({ description: 'A fault code of /docs/errors.' }),
          step: Type.String({ examples: ['network.inspect'] }),
          detail: Type.String(),
        }),
        {
          description:
            'Everything the last inspection found to be wrong, also what does not keep the VM from what is desired.',
        },
      ),
    ),
    compute: Type.Optional(
      Type.Object(computeMembers, { description: 'As the VM runs now; absent while it does not.' }),
    ),
    disk: Type.Optional(
      Type.Object(
        {
          size_mib: Type.Integer({ description: 'Of the disk on this host.' }),
          guest_size_mib: Type.Optional(
            Type.Integer({
              description:
                'As the running guest sees it; below `size_mib` where growth reaches the guest at its next start.',
            }),
          ),
        },
        { description: 'Absent until the disk exists, and while the host does not see it in the pool.' },
      ),
    ),
    started_at: Type.Optional(timeSchema),
    ...sleepMembers,
  },
  { description: 'What the host reached.' },
)

/** Answers are open: later versions may add members, and a client must ignore unknown ones. */
export const vmSchema = Type.Object(
  {
    id: vmIdSchema,
    desired: desiredSchema,
    observed: observedSchema,
    generations: Type.Object(
      { desired: generationSchema, observed: generationSchema },
      {
        description:
          'Every real change raises `desired`; `observed` follows when the host is as desired. They are equal when the ' +
          'change is complete. When they stop moving apart, read `observed.error`.',
        examples: [{ desired: 7, observed: 7 }],
      },
    ),
    ...metadataMembers,
    revision: Type.Integer({ minimum: 1, description: 'Raised by every visible change; the ETag.' }),
    created_at: timeSchema,
    updated_at: timeSchema,
    operation_id: Type.Optional(
      Type.String({
        description:
          'Only in the answer to a mutation that changed something; every log line that follows carries it.',
        examples: ['op-01b21dd2138040a1b2c3d4e5'],
      }),
    ),
    dry_run: Type.Optional(
      Type.Object(
        {
          changed: Type.Boolean({ description: 'Whether the request would change anything.' }),
          changes: Type.Array(
            Type.Object({
              pointer: Type.String({ examples: ['/desired/compute/memory_mib'] }),
              from: Type.Optional(Type.Unknown()),
              to: Type.Optional(Type.Unknown()),
            }),
          ),
          plan: Type.Optional(Type.Unsafe<PlanWire>({ $ref: 'Plan#' })),
        },
        {
          description:
            'Only in the answer to a request with `dry_run=true`, of which nothing was stored: the VM is shown as it would be.',
        },
      ),
    ),
  },
  { description: 'A VM: what is desired of it and what the host has reached.', examples: [exampleVm] },
)

export const vmListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<VmWire>({ $ref: 'Vm#' }), { description: 'In the order of their ids.' }),
  ...nextPageMembers,
})

export type VmWire = Static<typeof vmSchema>
export type VmListWire = Static<typeof vmListSchema>
