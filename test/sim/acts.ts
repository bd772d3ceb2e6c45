import { createVm } from '../../src/commands/vm/create-vm.ts'
import { rebuildVm } from '../../src/commands/vm/rebuild-vm.ts'
import { setCompute, setDisk, setExit, setNetwork } from '../../src/commands/vm/reshape.ts'
import { setBoot } from '../../src/commands/vm/set-boot.ts'
import { setPower } from '../../src/commands/vm/set-power.ts'
import { keepAwake } from '../../src/commands/vm/wake-vm.ts'
import { endGuest } from './disturb.ts'
import { offer, takeBack } from './leave.ts'
import { networkOf, PREFIXES, imageOn, SLEEPER } from './requests.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { CreateVm } from '../../src/core/vm/create.ts'
import type { FakeClock } from '../fakes/fake-clock.ts'
import type { FakeHost } from '../fakes/fake-host.ts'

/** One act in a VM's life. */
export type Act = (context: CommandContext) => unknown

type Stage = {
  readonly host: FakeHost
  readonly clock: FakeClock
  /** Number of the VM, of which its address follows. */
  readonly index: number
  readonly request: CreateVm
  readonly moveOn: () => void
  readonly receive: () => void
  readonly stop: Act
  readonly remove: Act
  readonly shutDown: () => void
}

/** Returns the life of a VM, act by act. */
export const actsOf = (
  id: VmId,
  { host, clock, index, request, moveOn, receive, stop, remove, shutDown }: Stage,
): readonly Act[] => [
  (context) => createVm(context, id, request),
  (context) => setPower(context, id, 'paused'),
  (context) => setPower(context, id, 'running'),
  (context) => setDisk(context, id, { sizeMib: 96, iopsMax: 100 }),
  (context) => setNetwork(context, id, { ...networkOf(index, 10), ipv6Prefix: PREFIXES[0] }),
  (context) => offer(context, id),
  moveOn,
  moveOn,
  (context) => takeBack(context, id),
  (context) => setCompute(context, id, SLEEPER),
  () => clock.advance(5000),
  receive,
  () => clock.advance(5000),
  (context) => (clock.set(-3_600_000), setPower(context, id, 'running')),
  () => clock.advance(5000),
  (context) => setDisk(context, id, { sizeMib: 128 }),
  () => clock.advance(5000),
  (context) => keepAwake(context, id, clock.now() + 6000),
  () => clock.advance(6000),
  (context) => setPower(context, id, 'paused'),
  shutDown,
  (context) => setPower(context, id, 'running'),
  shutDown,
  () => clock.advance(5000),
  stop,
  (context) => setCompute(context, id, { ...SLEEPER, memoryMib: 512 }),
  (context) => rebuildVm(context, id, imageOn(host, 1)),
  (context) => setBoot(context, id, { kernel: imageOn(host, 2) }),
  (context) => setPower(context, id, 'running'),
  (context) => (setExit(context, id, { restartPolicy: 'never' }), endGuest(host, id, 0)),
  (context) => setPower(context, id, 'running'),
  () => clock.advance(5000),
  remove,
]
