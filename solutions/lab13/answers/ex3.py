# %% wrong: saves_at_the_end
# Saves after the last part, too.

def finished(work, every, save, restart, failures):
    now, saved, failures = 0, 0, list(failures)
    while saved < work:
        part = min(every, work - saved)
        end = now + part + save
        if failures and failures[0] < end:
            now = failures.pop(0) + restart
        else:
            now, saved = end, saved + part
    return now


# %% wrong: saved_when_it_begins
# Thinks that what is being saved is safe at the moment when the save begins.

def finished(work, every, save, restart, failures):
    now, done, failures = 0, 0, list(failures)
    while True:
        part = min(every, work - done)
        if failures and failures[0] < now + part:
            now = failures.pop(0) + restart
            continue
        now += part
        done += part
        if done == work:
            return now
        if failures and failures[0] < now + save:
            now = failures.pop(0) + restart
        else:
            now += save


# %% wrong: a_failure_costs_half
# Takes for each failure half a part and the restart, as an estimate on paper does.

import math


def finished(work, every, save, restart, failures):
    saves = math.ceil(work / every) - 1
    end = work + saves * save
    for failure in failures:
        if failure < end:
            end += every / 2 + restart
    return end


# %% wrong: fails_while_computing_only
# Counts what is lost by the whole job's time, and forgets that a failure may come during a restart.

def finished(work, every, save, restart, failures):
    now = saved = 0
    for failure in list(failures) + [float("inf")]:
        if failure < now:
            continue
        while True:
            part = min(every, work - saved)
            last = saved + part >= work
            end = now + part + (0 if last else save)
            if end > failure:
                now = failure + restart
                break
            if last:
                return end
            now, saved = end, saved + part


# %% wrong: nothing_is_lost
# Stops for the restart and goes on where it was.

import math


def finished(work, every, save, restart, failures):
    end = work + (math.ceil(work / every) - 1) * save
    for failure in failures:
        if failure < end:
            end += restart
    return end


# %% wrong: goes_back_to_the_beginning
# Begins the whole work again after each failure.

import math


def finished(work, every, save, restart, failures):
    needed = work + (math.ceil(work / every) - 1) * save
    begin = 0
    for failure in failures:
        if failure < begin + needed:
            begin = failure + restart
    return begin + needed


# %% wrong: saves_by_the_clock
# Saves whenever so many seconds have passed on the clock, those of the saves and restarts included.

def finished(work, every, save, restart, failures):
    now = computed = kept = 0
    next_save, failures = every, list(failures)
    while True:
        step = min(next_save - now, work - computed)
        if failures and failures[0] < now + step:
            now, computed = failures.pop(0) + restart, kept
            while next_save <= now:
                next_save += every
            continue
        now, computed = now + step, computed + step
        if computed == work:
            return now
        if failures and failures[0] < now + save:
            now, computed = failures.pop(0) + restart, kept
        else:
            now, kept = now + save, computed
        while next_save <= now:
            next_save += every


# %% wrong: whole_seconds
# Steps through whole seconds and rounds the failures down.

def finished(work, every, save, restart, failures):
    moments = {int(failure) for failure in failures}
    now = computed = saved = saving = restarting = 0
    while True:
        if now in moments:
            computed, saving, restarting = saved, 0, restart
        if restarting > 0:
            restarting -= 1
        elif saving > 0:
            saving -= 1
            if saving == 0:
                saved = computed
        else:
            computed += 1
            if computed >= work:
                return now + 1
            if computed - saved >= every:
                saving = save
                if saving == 0:
                    saved = computed
        now += 1


# %% wrong: uses_the_failures_up
# Takes the failures out of the caller's list with pop(0), so that the same history has fewer the next time.

def finished(work, every, save, restart, failures):
    now, saved = 0, 0
    while True:
        last = work - saved <= every
        end = now + (work - saved if last else every + save)
        if failures and failures[0] < end:
            now = failures.pop(0) + restart
            while failures and failures[0] < now:
                now = failures.pop(0) + restart
            continue
        if last:
            return end
        now, saved = end, saved + every


# %% right: stretch_by_stretch
# One stretch at a time; a failure before its end throws it away.

def finished(work, every, save, restart, failures):
    now, saved, failures = 0, 0, list(failures)
    while True:
        part = min(every, work - saved)
        last = saved + part == work
        end = now + part + (0 if last else save)
        if failures and failures[0] < end:
            now = failures.pop(0) + restart
        elif last:
            return end
        else:
            now, saved = end, saved + part


# %% right: by_arithmetic
# How many whole stretches fit before the next failure is a division.

import math


def finished(work, every, save, restart, failures):
    stretches = math.ceil(work / every) - 1  # those with a save behind them
    tail = work - stretches * every
    done, begin = 0, 0
    for failure in failures:
        if failure < begin:
            begin = failure + restart
            continue
        if begin + (stretches - done) * (every + save) + tail < failure:
            break
        done += min(int((failure - begin) // (every + save)), stretches - done)
        begin = failure + restart
    return begin + (stretches - done) * (every + save) + tail


# %% wrong: last_save_that_is_not_made
# Lets a failure count that comes in the time of a save after the last part, which is not made.

def finished(work, every, save, restart, failures):
    now, saved = 0, 0
    for failure in [*failures, math.inf]:
        while True:
            part = min(every, work - saved)
            is_last = saved + part == work
            end = now + part + (0 if is_last else save)
            if now + part + save > failure:
                break
            if is_last:
                return end
            now, saved = end, saved + part
        now = failure + restart


# %% wrong: half_seconds
# Counts the time in half seconds, and rounds other moments.

def finished(work, every, save, restart, failures):
    now, saved = 0, 0
    failures = [round(2 * moment) / 2 for moment in failures]
    for failure in [*failures, math.inf]:
        while True:
            part = min(every, work - saved)
            is_last = saved + part == work
            end = now + part + (0 if is_last else save)
            if end > failure:
                break
            if is_last:
                return end
            now, saved = end, saved + part
        now = failure + restart
