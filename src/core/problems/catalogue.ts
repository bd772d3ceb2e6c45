/** Joins the catalogue of problems from its subjects. `./dev errors` makes the tables of `docs/errors.md` from it. */
import { capacity } from './capacity.ts'
import { consoles } from './consoles.ts'
import { events } from './events.ts'
import { images } from './images.ts'
import { maintenance } from './maintenance.ts'
import { migrations } from './migrations.ts'
import { network } from './network.ts'
import { requests } from './requests.ts'
import { sleep } from './sleep.ts'
import { snapshots } from './snapshots.ts'
import { storage } from './storage.ts'
import { vms } from './vms.ts'
import { work } from './work.ts'
import type { FaultEntry, RejectionEntry } from './entry.ts'

const everyRejection = {
  ...requests.rejections,
  ...vms.rejections,
  ...consoles.rejections,
  ...capacity.rejections,
  ...maintenance.rejections,
  ...storage.rejections,
  ...images.rejections,
  ...network.rejections,
  ...migrations.rejections,
  ...sleep.rejections,
  ...snapshots.rejections,
  ...events.rejections,
}

const everyFault = {
  ...vms.faults,
  ...consoles.faults,
  ...capacity.faults,
  ...storage.faults,
  ...images.faults,
  ...network.faults,
  ...sleep.faults,
  ...snapshots.faults,
  ...migrations.faults,
  ...work.faults,
}

export const rejections: Readonly<Record<keyof typeof everyRejection, RejectionEntry>> = everyRejection
export const faults: Readonly<Record<keyof typeof everyFault, FaultEntry>> = everyFault
