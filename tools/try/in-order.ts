/*
 * Runs test files in this process, one after the other, in the order of the arguments: `node --test` would sort them by
 * name. Each file is a suite, so that its hooks are its own, and is loaded when those before it have ended.
 */
import path from 'node:path'
import { after, describe } from 'node:test'

for (const file of process.argv.slice(2)) {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  void describe(file, async () => {
    after(() => end())
    try {
      await import(path.resolve(file))
    } catch (error) {
      // Node calls no hooks of a suite that could not be made.
      end()
      throw error
    }
  })
  await ended
}
