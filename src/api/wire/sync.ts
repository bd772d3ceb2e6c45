import { Type } from 'typebox'
import { exampleSync } from './sync-example.ts'
import { snapshotSchema } from './snapshot.ts'
import { timeSchema } from './time.ts'
import { OBSERVED_STATES, sha256Schema, vmIdSchema, vmSchema } from './vm.ts'
import type { Static } from 'typebox'

const mib = (description: string) => Type.Integer({ minimum: 0, description: `MiB. ${description}` })
const count = (description: string) => Type.Integer({ minimum: 0, description })

const COMMITTED =
  'Promised to all VMs that exist, stopped and sleeping ones and those under deletion included.'
const ALLOCATABLE = 'What VMs may commit together'

const CERTIFICATE_NAMES = ['authority', 'controller', 'node', 'server'] as const

export type CertificateName = (typeof CERTIFICATE_NAMES)[number]

const hostSchema = Type.Object(
  {
    id: Type.String({ description: 'As configured; the host name by default.', examples: ['host-1'] }),
    boot_id: Type.String({ description: 'Another after each boot of the host.' }),
    version: Type.String({ description: 'Of vmhostd.', examples: ['1.2.3'] }),
    ssh_public_key: Type.String({
      description:
        'With which the daemon logs in to guests, as a line of authorized_keys. Guests that read their seed disk have it; put it in images that do not.',
      examples: ['ssh-ed25519 AAAAC3Nza… vmhostd@host-1'],
    }),
    monitor: Type.Object(
      {
        program: Type.String({ examples: ['qemu-system-x86_64'] }),
        version: Type.Optional(
          Type.String({ description: 'Absent where the program cannot be run.', examples: ['10.0.2'] }),
        ),
        accelerator: Type.String({
          description: '`kvm`, or `tcg` for emulation.',
          examples: ['kvm'],
        }),
      },
      { description: 'What VMs that are started now run in.' },
    ),
    kernel: Type.String({ description: 'Release of the running kernel.', examples: ['6.12.41-cloud-amd64'] }),
    architecture: Type.String({ description: 'As `uname -m` prints it.', examples: ['x86_64'] }),
    clock: Type.String({ format: 'date-time', description: "The host's time when this answer was made." }),
    certificates: Type.Array(
      Type.Object({
        name: Type.Enum(CERTIFICATE_NAMES, {
          type: 'string',
          description:
            '`server`: of this API. `authority`: what signs clients; the first of several to end. `node`: of the host towards ' +
            'other hosts. `controller`: of the last client that connected.',
        }),
        not_after: Type.String({ format: 'date-time', description: 'When it ends.' }),
      }),
      { description: 'The certificates that this API depends on, as far as the host has seen them.' },
    ),
  },
  { description: 'Which host this is.' },
)

const capacitySchema = Type.Object(
  {
    cpu: Type.Object(
      {
        total_millicores: count('1000 for each CPU that is online.'),
        committed_millicores: count(`${COMMITTED} CPU is shared, so this may be more than there is.`),
      },
      { description: 'Millicores; 1000 is one core.' },
    ),
    memory: Type.Object(
      {
        total_mib: mib('Memory of the host.'),
        available_mib: mib('What programs could take now without swapping, as the kernel estimates it.'),
        committed_mib: mib(`The sum of the next two. ${COMMITTED}`),
        committed_guests_mib: mib('Memory of the guests.'),
        committed_monitors_mib: mib('What their monitors may take besides.'),
        allocatable_mib: mib(`${ALLOCATABLE}: the total less the reserve of the configuration.`),
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
        committed_saved_mib: mib('Saved memory of VMs that may sleep, asleep now or not.'),
        committed_images_mib: mib('Images that are in the pool now.'),
        committed_staging_mib: mib('The quota of what is staged of snapshots.'),
        allocatable_mib: mib(`${ALLOCATABLE}: the total times the overcommit, less the reserve.`),
      }),
      { description: 'Each storage pool.' },
    ),
  },
  { description: 'True when this answer was made; nothing in it is remembered.' },
)

const vmSummarySchema = Type.Object({
  id: vmIdSchema,
  generations: vmSchema.properties.generations,
  state: Type.Enum(OBSERVED_STATES, { type: 'string' }),
  error: Type.Optional(Type.String({ description: 'As `observed.error` of the VM; absent when healthy.' })),
})

const imageSchema = Type.Object({
  sha256: sha256Schema,
  size_mib: mib('Length of the image, rounded up.'),
  in_use: Type.Boolean({ description: 'Whether a VM on this host is made of it.' }),
  use_count: count('VMs on this host that are made of it.'),
  last_used_at: Type.Optional({
    ...timeSchema,
    description: 'When a VM was last created of it or deleted. Absent where none ever was.',
  }),
})

const snapshotSummarySchema = Type.Object({
  id: snapshotSchema.properties.id,
  vm_id: vmIdSchema,
  status: snapshotSchema.properties.status,
  percent: snapshotSchema.properties.progress.properties.percent,
  needs_urls: snapshotSchema.properties.needs_urls,
  last_activity_at: snapshotSchema.properties.last_activity_at,
  error: Type.Optional(Type.String({ description: 'As `error` of the snapshot; absent when all is well.' })),
})

const stagingSchema = Type.Object(
  {
    packed_mib: mib('Compressed parts of all snapshots, sent or not.'),
    sent_mib: mib(
      'Of these, parts that a store has. They stay until their snapshot is deleted or stale, or until another one needs the room.',
    ),
    clones_mib_max: mib(
      'Captured disks that are still compressed. They share their blocks with the disks of their VMs until those are written: this is the most that they can come to.',
    ),
    quota_mib: mib(
      '`packed_mib` goes no further: parts that were sent give room to others, and then compressing waits for sending.',
    ),
  },
  { description: 'Where snapshots are made, in the pool.' },
)

const consolesSchema = Type.Object(
  {
    protected: count('Running VMs whose console is stored with systemd: they outlive the daemon.'),
    running_units: count('VMs that run.'),
    places_total: count(
      'Consoles that systemd may keep at the same time: as many VMs may run. One that would start or wake beyond them waits (`no_console_place`).',
    ),
    places_free: count('Of these, free now.'),
    places_held: count(
      'Held by VMs that should run or be paused and never sleep, whether they run now or not. VMs that sleep share the others.',
    ),
    places_held_max: count('No more are given to VMs that never sleep (`console_places_exhausted`).'),
    descriptor_store_available: Type.Boolean({
      description: 'Whether what is stored outlives a stop of the daemon. Where not, no VM can be started.',
    }),
    unprotected: Type.Array(vmIdSchema, {
      description: 'Running VMs that would end with the daemon. Stop and start each once.',
    }),
  },
  { description: 'How far running VMs are safe from an end of the daemon.' },
)

export const syncSchema = Type.Object(
  {
    host: hostSchema,
    capacity: capacitySchema,
    vms: Type.Array(vmSummarySchema, { description: 'Every VM, in the order of their ids.' }),
    snapshots: Type.Array(snapshotSummarySchema, {
      description: 'Every snapshot, in the order of their ids.',
    }),
    staging: stagingSchema,
    images: Type.Array(imageSchema, {
      description: 'Every image in the pool, in the order of their digests.',
    }),
    consoles: consolesSchema,
  },
  { description: 'All of a host in one answer.', examples: [exampleSync] },
)

export type SyncWire = Static<typeof syncSchema>
