import { Type } from 'typebox'
import { GUEST_POWERS } from '../../core/vm/manifest.ts'
import { exampleManifest } from './examples.ts'
import { migrationIdSchema, modeSchema, stageSchema } from './migration.ts'
import { networkSchema } from './network.ts'
import { time, timeSchema } from './values.ts'
import { computeMembers, diskMembers, vmIdSchema } from './vm.ts'
import { computeToWire, diskToWire, networkToWire } from './vm-to-wire.ts'
import type { Manifest } from '../../core/vm/manifest.ts'
import type { Static } from 'typebox'
import type { SaveForm } from '../../core/world/saved-state.ts'

const SAVE_FORMS = ['mapped', 'stream'] as const satisfies readonly SaveForm[]

const monitorSchema = Type.Object(
  {
    program: Type.String({ examples: ['qemu-system-x86_64'] }),
    version: Type.String({ description: 'As the monitor reports it.', examples: ['10.0.2'] }),
    accelerator: Type.String({ description: '`kvm`, or `tcg` for emulation.', examples: ['kvm'] }),
    form: Type.Enum(SAVE_FORMS, {
      type: 'string',
      description:
        'The form of saved memory. `mapped`: each page has its own place. `stream`: pages follow one another.',
    }),
  },
  { description: 'The monitor that runs or saved the guest. The memory can be read only by one like it.' },
)

/** Answers are open: later versions may add members, and a client must ignore unknown ones. */
export const manifestSchema = Type.Object(
  {
    migration_id: migrationIdSchema,
    vm_id: vmIdSchema,
    stage: stageSchema,
    mode: modeSchema,
    power: Type.Enum(GUEST_POWERS, { type: 'string', description: 'How the guest lives at this host now.' }),
    monitor: monitorSchema,
    compute: Type.Object(computeMembers),
    disk: Type.Object(diskMembers),
    network: Type.Optional(networkSchema),
    expires_at: Type.Optional({
      ...timeSchema,
      description:
        'This host withdraws the offer at this time, unless the VM was released before. Absent when a request has withdrawn it.',
    }),
  },
  {
    description: 'A VM that this host offers: what a destination must know before anything moves.',
    examples: [exampleManifest],
  },
)

export type ManifestWire = Static<typeof manifestSchema>

/** Translates an offered VM for the host that may take it. */
export const manifestToWire = ({ network, ...manifest }: Manifest): ManifestWire => ({
  migration_id: manifest.migrationId,
  vm_id: manifest.vmId,
  stage: manifest.stage,
  mode: manifest.mode,
  power: manifest.power,
  monitor: {
    program: manifest.monitor.program,
    version: manifest.monitor.version,
    accelerator: manifest.monitor.accelerator,
    form: manifest.monitor.form,
  },
  compute: computeToWire(manifest.compute),
  disk: diskToWire(manifest.disk),
  ...(network === undefined ? {} : { network: networkToWire(network) }),
  ...(manifest.expiresAtMs === undefined ? {} : { expires_at: time(manifest.expiresAtMs) }),
})
