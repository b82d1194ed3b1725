"""The checks find what they are for. `python3 dashboards/test_check.py`"""

import unittest

import check
from board import Panel

VARIABLES = {"datasource", "job", "instance"}
GOOD = "sum(rate(holdfast_lock_calls_total{$M}[$__rate_interval]))"


def problems(query=GOOD, about="What it shows, in a sentence.", unit="ops"):
    return list(check.panel_problems(Panel("Title", about, unit, [(query, "")]), VARIABLES))


class Checks(unittest.TestCase):
    def test_a_good_panel_has_no_problem(self):
        self.assertEqual(problems(), [])

    def test_a_panel_needs_a_description_and_a_unit_that_grafana_knows(self):
        self.assertEqual(len(problems(about="Calls")), 1)
        self.assertEqual(len(problems(unit="calls")), 1)

    def test_every_selector_chooses_jobs(self):
        self.assertEqual(len(problems("sum(holdfast_cluster_locks)")), 1)
        self.assertEqual(len(problems('sum(holdfast_cluster_locks{cluster="a"})')), 1)

    def test_rates_are_over_the_rate_interval(self):
        self.assertEqual(len(problems("rate(holdfast_fences_total{$M}[5m])")), 1)

    def test_no_query_makes_up_data(self):
        self.assertEqual(len(problems(GOOD + " or vector(0)")), 1)

    def test_no_query_uses_a_variable_that_its_dashboard_lacks(self):
        self.assertEqual(len(problems('holdfast_ready{job=~"$job",instance=~"$pod"}')), 1)

    def test_metrics_are_found_in_queries_and_label_values_and_groups_are_not(self):
        query = 'histogram_quantile(0.9, sum by (le, holdfast_x) (rate(holdfast_a_b_bucket{c="holdfast_d_e"}[5m]))) / up'
        self.assertEqual(check.names_in(query), {"holdfast_a_b", "up"})


if __name__ == "__main__":
    unittest.main()
