import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import type { VmId } from '../core/ids.ts'

const COUNT = limits.passesMax + 3
const named = (number: number): VmId => `web-${number}` as VmId

test('a change does not wait for the looks at all VMs after a reload of systemd', async (t) => {
  const { host, context, create, idle } = await reconcileStage(t, { vmsMax: COUNT })
  for (let number = 1; number <= COUNT; number += 1)
    create({ network: { ipv4Address: `192.0.2.${number}` } }, named(number))
  await idle()
  const looks: VmId[] = []
  const inspect = host.units.inspect.bind(host.units)
  host.units.inspect = (id) => {
    looks.push(id)
    return inspect(id)
  }
  host.fakeUnits.reconnect()
  setPower(context, named(COUNT), 'paused')
  await idle()
  const others = Array.from({ length: COUNT - 1 }, (_, number) => named(number + 1))
  const [begun, left] = [others.slice(0, limits.passesMax), others.slice(limits.passesMax)]
  assert.deepEqual(looks.slice(0, COUNT), [...begun, named(COUNT), ...left])
})
