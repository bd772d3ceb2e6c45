/** Consoles of VMs that sleep and of VMs that were stopped, under the installed daemon. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { Follower, view } from '../../lab/inside/console.ts'
import { exchange } from '../../lab/inside/first-packets.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { asleep, awake, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { typeInto, untilPrompt } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { atEnd } from '../contract/at-end.ts'
import { adoptionReport } from './adoption-report.ts'
import { IDLE_SECONDS, sleeperOfTests } from './sleeper-of-tests.ts'
import { story } from './story.ts'

const one = sleeper('console-sleep', 1)
const { id, ipv4 } = one
const life = sleeperOfTests(one)
const RUNNER = 'console-runner'
const ROUNDS = 3
/** Counts endlessly, as fast as the guest's shell can, and leaves the shell free to read input. */
const COUNT = '(i=0; while :; do i=$((i+1)); echo "line $i."; done) &'

const storedMasters = async (): Promise<number> =>
  Number(await unitProperty('vmhostd', 'NFileDescriptorStore'))

/** Follows the counting guest: each line is the next number, once it has begun. */
class Counter {
  counted = 0
  /** The prompt of the shell stands among the first lines. */
  isStrict = false
  /** Lines that are not the next number, and the last unfinished one. */
  readonly others: string[] = []
  rest = ''
  readonly follower = new Follower(id, (text) => {
    const lines = `${this.rest}${text}`.split('\r\n')
    this.rest = lines.pop() ?? ''
    for (const line of lines) this.#take(line)
  })

  #take(line: string): void {
    const number = Number(/^line ([0-9]+)\.$/.exec(line)?.[1])
    if (number === this.counted + 1 || (number > 0 && !this.isStrict)) this.counted = number
    else this.others.push(line)
  }

  async goesOn(): Promise<void> {
    const before = this.counted
    await until('the guest counts', async () => {
      // A line that is lost would end the count, and look like a guest that hangs.
      if (this.isStrict) assert.deepEqual(this.others, [])
      return this.counted > before + 100 ? true : undefined
    })
  }
}

test('a viewer that stays through sleeps and wakes loses and doubles no byte', async (t) => {
  const counter = new Counter()
  const { follower, others } = counter
  atEnd(t, () => follower.end())
  const following = follower.follow()
  await until('the viewer is there', async () => (follower.lives > 0 ? true : undefined))
  await typeInto(id, 'echo ready')
  follower.type(`${COUNT}\r`)
  await counter.goesOn()
  counter.isStrict = true
  others.length = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const { observed } = await asleep(id)
    await exchange(ipv4)
    await awake(id, observed.last_wake?.at)
    await counter.goesOn()
  }
  assert.deepEqual(others, [])
  assert.equal(follower.lostBytes, 0)
  assert.equal(follower.lives, 1, 'the viewer had to come back')
  // Typed while the VM sleeps: the guest gets all of it when it is woken.
  await asleep(id)
  follower.type('echo no-""more; kill $!\r')
  await exchange(ipv4)
  await until('the guest has read it', async () =>
    [...others, counter.rest].some((line) => line.includes('no-more')) ? true : undefined,
  )
  follower.end()
  await following
  await life.assertSame()
})

story('the consoles of a VM that runs and of one that sleeps outlive the daemon', {
  'after a restart the counts are right with a VM that runs and one that sleeps': async () => {
    await mutate('PUT', `/v1/vms/${RUNNER}`, guestRequest())
    await settled(RUNNER, 'running')
    await asleep(id)
    await until('the sleeper has left its place', async () =>
      (await storedMasters()) === 1 ? true : undefined,
    )
    await sh('systemctl', 'restart', 'vmhostd')
    await ready()
    const report = await adoptionReport()
    assert.equal(report['adopted_console_count'], 1)
    assert.equal(report['running_unit_count'], 1)
    assert.equal(report['inherited_console_count'], 1)
    await exchange(ipv4)
    await typeInto(id, 'echo awake', ipv4)
    assert.equal(await storedMasters(), 2)
    await life.assertSame()
  },
  'the last output of a console can be read until the next start of its VM, even after a restart':
    async () => {
      await until('the guest is up', async () =>
        (await sh('vmhostd', 'console', RUNNER)).includes('demo guest ready') ? true : undefined,
      )
      await untilPrompt(RUNNER)
      await typeInto(RUNNER, 'echo the-""evidence')
      await setPower(RUNNER, 'stopped')
      await settled(RUNNER, 'stopped')
      await sh('systemctl', 'restart', 'vmhostd')
      await ready()
      assert.match(await sh('vmhostd', 'console', RUNNER), /the-evidence/)
      let text = ''
      const viewer = await view(RUNNER, { onOutput: (chunk) => (text += chunk.toString()) })
      const [status, reason] = (await once(viewer.socket, 'close')) as [number, Buffer]
      assert.equal(status, 1000)
      assert.match(reason.toString(), /^vm_stopped: this was its last output$/)
      assert.match(text, /the-evidence/)
      await setPower(RUNNER, 'running')
      await settled(RUNNER, 'running')
      assert.doesNotMatch(await sh('vmhostd', 'console', RUNNER), /the-evidence/)
      await remove(RUNNER)
      await sleepAfter(id, IDLE_SECONDS)
    },
})
