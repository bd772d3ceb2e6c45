import { test } from 'node:test'
import type { TestContext } from 'node:test'

type Stages = Readonly<Record<string, (t: TestContext) => unknown>>

/**
 * Defines one test of several stages, each of which needs what the ones before it left. The first one that fails ends
 * the test, and its error names the stage.
 */
export function story(name: string, stages: Stages, { skip = false }: { skip?: string | false } = {}): void {
  test(name, { skip }, async (t) => {
    for (const [stage, run] of Object.entries(stages)) {
      try {
        await run(t)
      } catch (error) {
        throw new Error(`the stage failed: ${stage}`, { cause: error })
      }
    }
  })
}
