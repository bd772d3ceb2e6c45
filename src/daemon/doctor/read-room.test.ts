import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRoom } from './read-room.ts'

test('after a boot there is room for the files of a daemon that was not started yet, and none without a state', async () => {
  const room = await readRoom({
    stateDirectory: '/nonexistent/state',
    runDirectory: '/run/vmhostd-not-started',
  })
  assert.deepEqual(
    room.map(({ what, directory, availableMib }) => [what, directory, availableMib.known]),
    [
      ['state', '/nonexistent/state', false],
      ['run', '/run/vmhostd-not-started', true],
    ],
  )
})
