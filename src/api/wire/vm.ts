import { Type } from 'typebox'
import { MONITOR_KINDS } from '../../core/monitor/monitor-kind.ts'
import { nextPageMembers, timeSchema, LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN } from './values.ts'
import { limits } from '../../config/limits.ts'
import { exampleNumber, exampleVm } from './examples.ts'
import { SHA256_PATTERN, VM_ID_PATTERN } from '../../core/ids.ts'
import { OBSERVED_STATES } from '../../core/vm/record.ts'
import { arrivalSchema, departureSchema, offerSchema } from './migration.ts'
import { networkSchema } from './network.ts'
import { guestMembers, readinessSchema } from './guest.ts'
import { exitMembers, exitsMembers } from './exit.ts'
import { keepAwakeMembers, sleepMembers } from './sleep.ts'
import type { Static } from 'typebox'
import type { PlanWire } from './plan.ts'
import type { DesiredPower } from '../../core/desired.ts'
import type { StopKind } from '../../core/vm/record.ts'

const POWERS = ['running', 'stopped', 'paused'] as const satisfies readonly DesiredPower[]

export const vmIdSchema = Type.String({
  pattern: VM_ID_PATTERN,
  description: 'Chosen by the controller: 1 to 63 lower-case letters, digits and inner hyphens.',
  examples: ['web-1'],
})

export const monitorKindSchema = Type.Enum(MONITOR_KINDS, {
  type: 'string',
  description:
    'The monitor that runs the VM. It is chosen at creation and never changes. `host.monitors` of /v1/sync has those of this host.',
})

export const powerSchema = Type.Enum(POWERS, {
  type: 'string',
  description:
    '`stopped` is a hard stop, unless the request gives the guest time, and discards saved state. A VM sleeps only while this is `running`.',
})

export const computeMembers = {
  cpu_millicores: Type.Integer({
    minimum: limits.cpuMillicoresMin,
    maximum: limits.cpuMillicoresMax,
    description: '1000 is one core. The guest sees one vCPU for each 1000, rounded up.',
    examples: [1500],
  }),
  memory_mib: Type.Integer({ minimum: limits.memoryMibMin, maximum: limits.memoryMibMax, examples: [512] }),
  sleep_after_idle_seconds: Type.Integer({
    minimum: 0,
    maximum: limits.sleepAfterIdleSecondsMax,
    description:
      'Seconds. Puts the VM to sleep after this long without unicast IPv4 or IPv6 from host to guest. 0 switches this ' +
      'off, and wakes the VM. Work or packets of the guest do not count: choose a longer time than it ever takes to answer. ' +
      'Traffic cannot wake a VM without an address, so only 0 is accepted for it.',
    examples: [0],
  }),
  wake: Type.Optional(
    Type.Enum(['guaranteed'], {
      type: 'string',
      description:
        'The memory of the VM stays promised while it sleeps, so its wake never waits for memory. ' +
        'Absent: it lends its memory as far as `capacity.memory_sleep_ratio` of the host says.',
    }),
  ),
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
        'Reads and writes per second, together. Not limited if absent. Takes effect on a running VM.',
      examples: [500],
    }),
  ),
  mib_per_second_max: Type.Optional(
    Type.Integer({
      minimum: limits.diskMibPerSecondMin,
      maximum: limits.diskMibPerSecondMax,
      description: 'Reads and writes together. Not limited if absent. Takes effect on a running VM.',
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
    description: 'Labels by which the controller finds its VMs; see `?label=` of the list.',
    examples: [{ env: 'prod', 'example.net/owner': 'web' }],
  }),
  protected: Type.Boolean({ description: 'While true, the daemon refuses a deletion.' }),
}

export const sha256Schema = Type.String({
  pattern: SHA256_PATTERN,
  description: 'SHA-256 of the image, verified while it downloads.',
})
const digestSchema = Type.Object({ sha256: sha256Schema })
const generationSchema = Type.Integer({ minimum: 0 })

const rebuildSchema = Type.Integer({ minimum: 1, examples: [1] })

/** The members of desired state that a VM keeps when it moves to another host. */
export const desiredMembers = {
  power: powerSchema,
  compute: Type.Object(computeMembers),
  disk: Type.Object(diskMembers),
  image: Type.Object(
    {
      rootfs: digestSchema,
      kernel: digestSchema,
      initrd: Type.Optional(digestSchema),
      kernel_arguments: Type.Optional(Type.String()),
      rebuild: Type.Optional({
        ...rebuildSchema,
        description:
          'Number of the rebuild that makes the root disk. Absent: the disk is that of the creation.',
      }),
    },
    { description: 'The images of the request, by their digests. URLs are never returned.' },
  ),
  network: Type.Optional(networkSchema),
  readiness: Type.Optional(readinessSchema),
  ...exitMembers,
  instance: Type.Optional(
    Type.Integer({
      minimum: 2,
      description:
        'Number of the instance that cloud-init sets up. Absent: the first. A rebuild, or a change of user data or keys, begins the next one.',
      examples: [2],
    }),
  ),
}

const desiredSchema = Type.Object(
  { ...desiredMembers, migration: Type.Optional(offerSchema) },
  { description: 'The state that the controller asked for.' },
)

export const faultSchema = Type.Object(
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

const STOP_KINDS = ['hard', 'graceful', 'deadline'] as const satisfies readonly StopKind[]

const lastStopSchema = Type.Object(
  {
    at: timeSchema,
    how: Type.Enum(STOP_KINDS, {
      type: 'string',
      description:
        '`graceful`: the guest ended by itself after it was asked. `deadline`: it did not, and was stopped hard when its ' +
        'time was over. `hard`: without time, or it ended before it was asked.',
    }),
    reason: Type.Enum(['request', 'host_shutdown'], {
      type: 'string',
      description:
        '`host_shutdown`: the host shut down, and did not save the guest. It boots when the host runs again.',
    }),
  },
  { description: 'The last stop, or the stop of the last reboot, that was carried out.' },
)

const observedSchema = Type.Object(
  {
    state: Type.Enum(OBSERVED_STATES, {
      type: 'string',
      description:
        '`running`: its monitor answers and its vCPUs run; the guest may not have booted. ' +
        '`sleeping`: it was idle, its memory is saved in the pool, and it has no unit; traffic or a request wakes it. ' +
        '`waking`: it is being restored, and packets for it are held. ' +
        '`migrated`: another host has it; only this record is left here.',
    }),
    state_since: timeSchema,
    waiting_for: Type.Optional(
      Type.String({
        description:
          'The event that a transitional state waits for. After the deadline, `error` reports it. ' +
          '`the image`: an image is being fetched, or waits for its turn to be.',
        examples: ['the monitor to answer'],
      }),
    ),
    memory_queue: Type.Optional(
      Type.Object(
        {
          place: Type.Integer({ description: '1 is the next.', examples: [1] }),
          missing_mib: Type.Integer({
            description: 'The memory that the host lacks for this VM alone; 0 if only others are before it.',
            examples: [512],
          }),
          since: timeSchema,
        },
        {
          description:
            'The VM lent its memory while it slept, and waits to have it back. VMs get memory strictly in this order. ' +
            'Packets for the VM are held meanwhile, within their bounds.',
        },
      ),
    ),
    operation_id: Type.Optional(
      Type.String({
        description: 'The mutation that is being applied; absent when the generations are equal.',
      }),
    ),
    error: Type.Optional(
      Type.String({
        description: 'Why the VM is not as desired: the step and its chain of causes. Absent when healthy.',
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
            'All faults that the last inspection found, including those that do not keep the VM from its desired state.',
        },
      ),
    ),
    compute: Type.Optional(
      Type.Object(computeMembers, {
        description: 'Compute of the running VM; absent while it does not run.',
      }),
    ),
    disk: Type.Optional(
      Type.Object(
        {
          size_mib: Type.Integer({ description: 'Size of the disk on this host.' }),
          guest_size_mib: Type.Optional(
            Type.Integer({
              description:
                'Size that the running guest sees. It is below `size_mib` if the guest sees the growth only at its next start.',
            }),
          ),
        },
        { description: 'Absent until the disk exists, and while the host does not find it in the pool.' },
      ),
    ),
    rebuild: Type.Optional({
      ...rebuildSchema,
      description:
        'Number of the last rebuild that is done. While it is below `desired.image.rebuild`, the disk is the old one.',
    }),
    started_at: Type.Optional(timeSchema),
    stops_hard_at: Type.Optional({
      ...timeSchema,
      description:
        'When a guest that was asked to end is stopped hard. Absent unless it may end by itself now.',
    }),
    last_stop: Type.Optional(lastStopSchema),
    migration: Type.Optional(departureSchema),
    arrival: Type.Optional(arrivalSchema),
    ...sleepMembers,
    ...guestMembers,
    ...exitsMembers,
  },
  { description: 'The state that the host has reached.' },
)

/** Answers are open: later versions may add members, and a client must ignore unknown ones. */
export const vmSchema = Type.Object(
  {
    id: vmIdSchema,
    monitor: monitorKindSchema,
    desired: desiredSchema,
    observed: observedSchema,
    generations: Type.Object(
      { desired: generationSchema, observed: generationSchema },
      {
        description:
          'Every real change raises `desired`; `observed` becomes equal to it when the host is as desired. Then the ' +
          'change is complete. If `observed` stays behind, read `observed.error`.',
        examples: [{ desired: 7, observed: 7 }],
      },
    ),
    ...metadataMembers,
    ...keepAwakeMembers,
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
            'Only in the answer to a request with `dry_run=true`, which stores nothing: the VM is shown as it would be.',
        },
      ),
    ),
  },
  { description: 'A VM: its desired state, and the state that the host has reached.', examples: [exampleVm] },
)

export const vmListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<VmWire>({ $ref: 'Vm#' }), {
    description: 'Ordered by id; with `changed_after` by revision.',
  }),
  ...nextPageMembers,
  revision: Type.Integer({
    minimum: 0,
    description:
      'All changes up to this revision are in the answer: pass it as `changed_after` for those that follow, or as `after` for the events ' +
      'that follow. Of a list in several pages, take that of the first page.',
    examples: [exampleNumber(1042)],
  }),
  deleted: Type.Optional(
    Type.Array(vmIdSchema, {
      description: 'Only with `changed_after`: VMs that are gone since then.',
    }),
  ),
})

export type VmWire = Static<typeof vmSchema>
export type VmListWire = Static<typeof vmListSchema>
