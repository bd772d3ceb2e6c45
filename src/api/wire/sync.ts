import { Type } from 'typebox'
import { MONITOR_KINDS } from '../../core/monitor/monitor-kind.ts'
import { limits } from '../../config/limits.ts'
import { exampleSync } from './examples.ts'
import { maintenanceSchema } from './maintenance.ts'
import { snapshotSchema } from './snapshot.ts'
import { timeSchema } from './values.ts'
import { sha256Schema, vmIdSchema } from './vm.ts'
import { vmStateSchema } from './vm-state.ts'
import type { Static } from 'typebox'

const mib = (description: string) => Type.Integer({ minimum: 0, description: `MiB. ${description}` })
const count = (description: string) => Type.Integer({ minimum: 0, description })

const COMMITTED =
  'Committed to all existing VMs, including stopped and sleeping ones and those under deletion.'
const ALLOCATABLE = 'The most that all VMs together may commit'

const CERTIFICATE_NAMES = ['authority', 'controller', 'metrics', 'node', 'node_authority', 'server'] as const

export type CertificateName = (typeof CERTIFICATE_NAMES)[number]

const ROLES = ['controller', 'reader', 'console', 'metrics'] as const

const hostSchema = Type.Object(
  {
    id: Type.String({ description: 'As configured; the host name by default.', examples: ['host-1'] }),
    boot_id: Type.String({ description: 'Changes at each boot of the host.' }),
    version: Type.String({ description: 'Version of vmhostd.', examples: ['1.2.3'] }),
    ssh_public_key: Type.String({
      description:
        'The key with which the daemon logs in to guests, as a line of authorized_keys. Guests that read their seed disk have it. Put it into images that do not read theirs.',
      examples: ['ssh-ed25519 AAAAC3Nza… vmhostd@host-1'],
    }),
    monitors: Type.Array(
      Type.Object({
        kind: Type.Enum(MONITOR_KINDS, { type: 'string' }),
        offered: Type.Boolean({ description: 'Whether VMs may be created with it.' }),
        default: Type.Boolean({ description: 'Whether VMs that are created without `monitor` get it.' }),
        program: Type.String({ examples: ['qemu-system-x86_64'] }),
        version: Type.Optional(
          Type.String({
            description: 'Absent if the program cannot be run, or is too old.',
            examples: ['10.0.2'],
          }),
        ),
        accelerator: Type.String({
          description: '`kvm`, or `tcg` for emulation.',
          examples: ['kvm'],
        }),
        because: Type.String({
          description: 'Why it is offered with this accelerator, or not offered.',
          examples: ['KVM runs a guest at 2500.0 million instructions per second'],
        }),
      }),
      { description: 'The monitors that VMs may run with.' },
    ),
    kernel: Type.String({ description: 'Release of the running kernel.', examples: ['6.12.41-cloud-amd64'] }),
    architecture: Type.String({ description: 'As `uname -m` prints it.', examples: ['x86_64'] }),
    clock: Type.String({ format: 'date-time', description: "The host's time when this answer was made." }),
    maintenance: maintenanceSchema,
    faults: Type.Optional(
      Type.Array(
        Type.Object({
          code: Type.String({ description: 'See `/docs/errors`.', examples: ['state_unwritable'] }),
          detail: Type.String({ description: 'In words.' }),
        }),
        { description: 'Faults of the host itself, whatever its VMs do. Absent if there is none.' },
      ),
    ),
    certificates: Type.Array(
      Type.Object({
        name: Type.Enum(CERTIFICATE_NAMES, {
          type: 'string',
          description:
            '`server`: of this API. `authority`: the one that signs clients; if there are several, the first to expire. `node`: of the host towards ' +
            'other hosts. `node_authority`: the one that signs nodes, if it is not in the file of the other. `controller`: of the controllers ' +
            'that had a connection in the last day, the first to expire; if none had, of the last one. `metrics`: the same of those that read metrics ' +
            'on their listener.',
        }),
        not_after: Type.String({ format: 'date-time', description: 'When it expires.' }),
      }),
      { description: 'The certificates that this API depends on, as far as the host has seen them.' },
    ),
    clients: Type.Array(
      Type.Object({
        name: Type.String({
          description: 'Common name of the certificate.',
          examples: ['vmhost-controller'],
        }),
        role: Type.Enum(ROLES, {
          type: 'string',
          description: 'What the configuration lets it do. `metrics`: to read metrics, on their listener.',
        }),
        serial: Type.String({
          description: 'Serial number, hexadecimal, as `openssl x509 -serial` prints it.',
          examples: ['4F1B2C'],
        }),
        not_after: Type.String({ format: 'date-time', description: 'When it expires.' }),
        seen_at: Type.String({ format: 'date-time', description: 'When it last had a connection.' }),
      }),
      {
        description: `Certificates of clients that had a connection since the daemon started and in the last seven days, at most ${limits.clientCertificatesMax}, without those that are revoked. A name may have several.`,
      },
    ),
    revocation_list: Type.Optional(
      Type.Object(
        {
          revoked: count('Certificates that it revokes.'),
          next_update: Type.Optional(
            Type.String({
              format: 'date-time',
              description:
                'When a newer list is due. Past it, the list stays in use, and later revocations are not known.',
            }),
          ),
        },
        { description: 'The revocation list that is in use; absent without one.' },
      ),
    ),
  },
  { description: 'Identity and versions of this host.' },
)

const capacitySchema = Type.Object(
  {
    cpu: Type.Object(
      {
        total_millicores: count('1000 for each online CPU.'),
        committed_millicores: count(`${COMMITTED} CPU is shared, so this may exceed the total.`),
      },
      { description: 'Millicores; 1000 is one core.' },
    ),
    memory: Type.Object(
      {
        total_mib: mib('Memory of the host.'),
        available_mib: mib(
          'Memory that programs could take now without swapping, as the kernel estimates it.',
        ),
        committed_mib: mib(`The sum of the next two. ${COMMITTED}`),
        committed_guests_mib: mib('Memory of the guests.'),
        committed_monitors_mib: mib('Memory that their monitors may take in addition.'),
        allocatable_mib: mib(`${ALLOCATABLE}: the total less the reserve of the configuration.`),
        sleep_ratio: Type.Number({
          description:
            'The part of the memory of sleeping VMs that stays promised: `capacity.memory_sleep_ratio` of the configuration.',
          examples: [1],
        }),
        held_mib: mib(
          'Memory of all VMs except those that fell asleep and lent theirs. A wake waits if it would exceed `allocatable_mib`.',
        ),
        waiting_vms: Type.Integer({ description: 'VMs that wait for memory.', examples: [0] }),
        resident_mib: Type.Optional(
          mib(
            `Memory that running VMs and their monitors have on the host, measured at most ${limits.residentAgeMsMax / 1000} seconds before. ` +
              'The program, which all monitors share, is not part of it. Absent if it is unknown.',
          ),
        ),
        not_resident_mib: Type.Optional(
          mib(
            'The rest of what was promised to these VMs: guests never used it, or freed it and gave it back. Absent if it is unknown.',
          ),
        ),
      },
      { description: 'Memory.' },
    ),
    disks: Type.Array(
      Type.Object({
        pool: Type.String({ description: 'Id of the pool, from its marker.' }),
        total_mib: mib("Size of the pool's file system."),
        available_mib: mib('Free space in it now.'),
        committed_mib: mib(`The sum of the next four. ${COMMITTED}`),
        committed_disks_mib: mib('Disks of VMs, in their full size.'),
        committed_saved_mib: mib('Saved memory of VMs that may sleep, whether asleep now or not.'),
        committed_images_mib: mib('Images that are in the pool now.'),
        committed_staging_mib: mib('The quota for staged snapshots.'),
        allocatable_mib: mib(`${ALLOCATABLE}: the total times the overcommit, less the reserve.`),
      }),
      { description: 'Each storage pool.' },
    ),
  },
  {
    description:
      'All figures are measured for this answer, except the memory that running VMs have; that is a few seconds old.',
  },
)

const vmSummarySchema = Type.Object({
  ...vmStateSchema.properties,
  resident_mib: Type.Optional(
    mib('Its part of `capacity.memory.resident_mib`. Absent if the VM did not run when that was measured.'),
  ),
})

const imageSchema = Type.Object({
  sha256: sha256Schema,
  size_mib: mib('Length of the image, rounded up.'),
  use_count: count('VMs on this host that use it.'),
  last_used_at: Type.Optional({
    ...timeSchema,
    description: 'When a VM that uses it was last created or deleted. Absent if there never was one.',
  }),
})

const snapshotSummarySchema = Type.Object({
  id: snapshotSchema.properties.id,
  vm_id: vmIdSchema,
  status: snapshotSchema.properties.status,
  percent: snapshotSchema.properties.progress.properties.percent,
  needs_urls: snapshotSchema.properties.needs_urls,
  waiting_for: snapshotSchema.properties.waiting_for,
  last_activity_at: snapshotSchema.properties.last_activity_at,
  error: Type.Optional(
    Type.String({ description: 'Same as `error` of the snapshot; absent without an error.' }),
  ),
})

const stagingSchema = Type.Object(
  {
    packed_mib: mib('Compressed parts of all snapshots, sent or not, with those that are being made.'),
    sent_mib: mib(
      'Part of `packed_mib` that a store already has. These parts stay until their snapshot is deleted or stale, or until another one needs the room.',
    ),
    clones_mib_max: mib(
      'Captured disks that are still being compressed. They share their blocks with the disks of their VMs until those are written. This is the most that they can take.',
    ),
    quota_mib: mib(
      'Upper limit of the complete parts in `packed_mib`; each snapshot that is being compressed, eight at most, may have 64 MiB more. At the limit, sent parts are removed to make room; after that, compressing waits for sending.',
    ),
  },
  { description: 'The part of the pool in which snapshots are made.' },
)

const consolesSchema = Type.Object(
  {
    protected: count('Running VMs whose console is stored with systemd, so that they survive the daemon.'),
    running_units: count('Number of running VMs.'),
    places_total: count(
      'Number of consoles that systemd may keep at the same time, and so of VMs that may run. A VM that would start or wake beyond it waits (`no_console_place`).',
    ),
    places_free: count('How many of these are free now.'),
    places_held: count(
      'Places of VMs that should run or be paused and never sleep, whether they run now or not. Other VMs share the rest.',
    ),
    places_held_max: count(
      'Largest number of places that VMs which never sleep may hold (`console_places_exhausted`).',
    ),
    descriptor_store_available: Type.Boolean({
      description: 'Whether stored consoles survive a stop of the daemon. If not, VMs cannot be started.',
    }),
    unprotected: Type.Array(vmIdSchema, {
      description:
        'Running VMs that would end with the daemon. To fix this, stop and start each of them once.',
    }),
  },
  { description: 'Whether running VMs survive an end of the daemon.' },
)

export const syncSchema = Type.Object(
  {
    host: hostSchema,
    capacity: capacitySchema,
    vms: Type.Array(vmSummarySchema, { description: 'Every VM, ordered by id.' }),
    snapshots: Type.Array(snapshotSummarySchema, {
      description: 'Every snapshot, ordered by id.',
    }),
    staging: stagingSchema,
    images: Type.Array(imageSchema, {
      description: 'Every image in the pool, ordered by digest.',
    }),
    consoles: consolesSchema,
  },
  { description: 'The state of a whole host in one answer.', examples: [exampleSync] },
)

export type SyncWire = Static<typeof syncSchema>
